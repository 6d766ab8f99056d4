! Fortran by weft's C ABI, two ranks: rank 0 puts four floats into a slot of rank 1; then both add up what they hold.
! gfortran -fno-underscoring: C's names as they are, and %val for what C takes by value. A handle is an integer(8).
program put
  use, intrinsic :: iso_c_binding
  implicit none
  type, bind(C) :: slot_spec
    type(c_ptr) :: name; integer(c_int) :: dtype = 1; type(c_ptr) :: dims; integer(c_size_t) :: ndims = 1
    integer(c_int) :: depth = 1
  end type
  type, bind(C) :: call_spec ! weft_call: an all_reduce, whose further fields stay 0: a sum in place
    integer(c_size_t) :: struct_size = 80; integer(c_intptr_t) :: input = 0, output
    integer(c_int) :: kind = 3, rest(3) = 0; integer(c_size_t) :: more(5) = 0
  end type
  integer, external :: weft_join, weft_rank, weft_tensor_allocate, weft_tensor_data, weft_slot_attach, weft_put, &
    weft_slot_expose_in, weft_slot_wait, weft_collectives_open, weft_collectives_run, weft_arrival_release, &
    weft_slot_close, weft_remote_slot_close, weft_collectives_close, weft_leave
  character(kind=c_char), target :: name(8) = ["n", "u", "m", "b", "e", "r", "s", c_null_char]
  integer(c_int64_t), target :: dims(1) = 4
  integer(8) :: world, tensor, slot, arrival, all
  real(c_double), parameter :: limit = 20
  real(c_float), pointer :: numbers(:)
  integer :: rank; type(c_ptr) :: memory; type(slot_spec) :: spec; type(call_spec) :: add
  spec%name = c_loc(name); spec%dims = c_loc(dims)
  call ok(weft_join(world)); call ok(weft_rank(%val(world), rank))
  call ok(weft_tensor_allocate(%val(world), %val(1), dims, %val(1_8), tensor))
  call ok(weft_tensor_data(%val(tensor), memory)); call c_f_pointer(memory, numbers, [4]); numbers = [0, 1, 2, 3]
  if (rank == 0) call ok(weft_slot_attach(%val(world), %val(1), spec, %val(limit), slot))
  if (rank == 0) call ok(weft_put(%val(slot), %val(tensor), %val(limit)))
  if (rank == 1) call ok(weft_slot_expose_in(%val(world), spec, %val(tensor), slot))
  if (rank == 1) call ok(weft_slot_wait(%val(slot), %val(limit), arrival))
  add%output = tensor
  call ok(weft_collectives_open(%val(world), %val(0_8), %val(limit), all))
  call ok(weft_collectives_run(%val(all), add, %val(limit)))
  print '("rank ", i0, ":", 4(" ", f3.1))', rank, numbers; call ok(weft_collectives_close(%val(all)))
  if (rank == 0) call ok(weft_remote_slot_close(%val(slot)))
  if (rank == 1) call ok(weft_arrival_release(%val(arrival))); if (rank == 1) call ok(weft_slot_close(%val(slot)))
  call ok(weft_leave(%val(world), %val(limit)))
contains
  subroutine ok(code); integer, intent(in) :: code; if (code /= 0) error stop "a call of weft failed"; end subroutine
end program
