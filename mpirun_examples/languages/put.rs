// Rust by weft's C ABI, two ranks: rank 0 puts four floats into a slot of rank 1; then both add up what they hold.
use std::{ffi::{c_char, c_double, c_int, c_void, CStr}, ptr::null_mut};
type Handle = *mut c_void;
#[repr(C)]
struct SlotSpec { name: *const c_char, dtype: c_int, dims: *const i64, ndims: usize, depth: u32 }
#[repr(C)] // weft_call: an all_reduce, whose further fields stay 0: a sum in place
struct Call { struct_size: usize, input: Handle, output: Handle, kind: c_int, rest: [c_int; 3], more: [usize; 5] }
#[link(name = "weft")]
extern "C" {
    fn weft_error_text() -> *const c_char;
    fn weft_join(world: *mut Handle) -> c_int; fn weft_rank(world: Handle, rank: *mut c_int) -> c_int;
    fn weft_tensor_allocate(world: Handle, dtype: c_int, dims: *const i64, ndims: usize, new: *mut Handle) -> c_int;
    fn weft_tensor_data(tensor: Handle, data: *mut *mut f32) -> c_int;
    fn weft_slot_expose_in(world: Handle, spec: *const SlotSpec, memory: Handle, new: *mut Handle) -> c_int;
    fn weft_slot_attach(world: Handle, owner: c_int, spec: *const SlotSpec, time: c_double, new: *mut Handle) -> c_int;
    fn weft_slot_wait(slot: Handle, time: c_double, arrival: *mut Handle) -> c_int;
    fn weft_put(remote: Handle, tensor: Handle, time: c_double) -> c_int;
    fn weft_collectives_open(world: Handle, group: Handle, time: c_double, new: *mut Handle) -> c_int;
    fn weft_collectives_run(all: Handle, call: *const Call, time: c_double) -> c_int;
    fn weft_arrival_release(_: Handle) -> c_int; fn weft_slot_close(_: Handle) -> c_int;
    fn weft_remote_slot_close(_: Handle) -> c_int; fn weft_collectives_close(_: Handle) -> c_int;
    fn weft_leave(world: Handle, time: c_double) -> c_int;
}
fn ok(code: c_int) { assert!(code == 0, "{:?}", unsafe { CStr::from_ptr(weft_error_text()) }); }
fn main() { unsafe {
    let (dims, mut rank, mut data, mut arrival) = ([4i64], -1, null_mut(), null_mut());
    let (mut world, mut tensor, mut slot, mut all) = (null_mut(), null_mut(), null_mut(), null_mut());
    let spec = SlotSpec { name: b"numbers\0".as_ptr().cast(), dtype: 1, dims: dims.as_ptr(), ndims: 1, depth: 1 };
    ok(weft_join(&mut world)); ok(weft_rank(world, &mut rank));
    ok(weft_tensor_allocate(world, 1, dims.as_ptr(), 1, &mut tensor)); ok(weft_tensor_data(tensor, &mut data));
    for i in 0..4 { *data.add(i) = i as f32; }
    if rank == 0 { ok(weft_slot_attach(world, 1, &spec, 20.0, &mut slot)); ok(weft_put(slot, tensor, 20.0)); }
    else { ok(weft_slot_expose_in(world, &spec, tensor, &mut slot)); ok(weft_slot_wait(slot, 20.0, &mut arrival)); }
    let call = Call { struct_size: 80, input: null_mut(), output: tensor, kind: 3, rest: [0; 3], more: [0; 5] };
    ok(weft_collectives_open(world, null_mut(), 20.0, &mut all)); ok(weft_collectives_run(all, &call, 20.0));
    println!("rank {rank}: {:?}", std::slice::from_raw_parts(data, 4)); ok(weft_collectives_close(all));
    if rank == 0 { ok(weft_remote_slot_close(slot)) } else { ok(weft_arrival_release(arrival)); ok(weft_slot_close(slot)) }
    ok(weft_leave(world, 20.0));
} }
