//! Random bytes from the operating system. The cipher's library has some too, but at first use it measures the jitter of
//! the processor's clock for a tenth of a second, which is longer than everything else at start together.

/// The system gives none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub(crate) struct NoRandomness;

/// So many bytes that nobody can guess.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}
