# The compiler of the kernels. One that is too old for them, or that refuses the host's C++ compiler, counts as none.
set(WEFT_NVCC_FLAGS
    -std=c++17
    -fmad=false # no fused multiplication and addition: collectives on host memory round both
    -gencode
    arch=compute_80,code=sm_80
    -gencode
    arch=compute_90,code=sm_90
    -gencode
    arch=compute_90,code=compute_90)

# Sets RESULT to NVCC if that compiles a kernel such as weft's, else to "", and says why.
function(weft_find_nvcc result nvcc)
  set(${result} "" PARENT_SCOPE)
  if(NOT EXISTS "${nvcc}")
    return()
  endif()
  if(NOT WEFT_NVCC_COMPILES STREQUAL nvcc)
    set(folder ${CMAKE_BINARY_DIR}/nvcc)
    file(
      WRITE ${folder}/kernel.cu
      "#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
struct Parameters { std::uint64_t count; };
template <class T> __host__ __device__ T twice(T value) { if constexpr (sizeof(T) > 4) return value + value; else return 0; }
__extension__ using Int128 = __int128;
extern \"C\" __global__ void __launch_bounds__(256) kernel(const __grid_constant__ Parameters launch, Int128* sum) {
  *sum = twice(launch.count);
}
")
    execute_process(
      COMMAND ${nvcc} -fatbin ${WEFT_NVCC_FLAGS} -o ${folder}/kernel.fatbin ${folder}/kernel.cu
      RESULT_VARIABLE failed
      OUTPUT_VARIABLE said
      ERROR_VARIABLE said)
    if(failed)
      string(STRIP "${said}" said)
      message(STATUS "weft has no kernels for GPUs: ${nvcc} does not compile one: ${said}")
      return()
    endif()
    set(WEFT_NVCC_COMPILES ${nvcc} CACHE INTERNAL "the nvcc that compiles kernels")
  endif()
  set(${result} ${nvcc} PARENT_SCOPE)
endfunction()
