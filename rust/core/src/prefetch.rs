//! Hints to the processor to load memory into the cache ahead of its use.

/// Starts loading `slice[index]` into the cache. This is a hint without any other effect, also when `index` is outside
/// the slice.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    prefetch_at(slice.as_ptr().wrapping_add(index).cast());
}

/// Starts loading the cache line at `address`, on x86-64 and AArch64. This is a hint: any address is allowed.
#[inline(always)]
pub fn prefetch_at(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has SSE; a prefetch never faults and reads nothing the program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: `prfm` is a hint: it never faults, touches no register or flag, and reads nothing the program can see.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
        };
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
