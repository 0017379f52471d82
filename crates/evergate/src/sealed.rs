//! Text that only this gateway can read and nobody can change, for what it hands out and gets back.
//!
//! ```text
//! base64url( format (1 byte, authenticated) | nonce (12) | AES-256-GCM-SIV( text ) | tag (16) )
//! ```
//!
//! The nonce is random, and this cipher stays safe even if one repeats. The format tells what is meant to be in it, so that
//! nothing is taken for something else.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::random;

/// How much longer the sealed bytes are, before they become text.
pub(crate) const OVERHEAD: usize = 1 + NONCE_LEN + 16;

/// Seals and opens.
pub(crate) struct SealingKey(LessSafeKey);

// === impl SealingKey ===

impl SealingKey {
    /// `None` if the cipher refuses it, which it has no reason to.
    pub(crate) fn new(bytes: &[u8; 32]) -> Option<Self> {
        UnboundKey::new(&AES_256_GCM_SIV, bytes).ok().map(LessSafeKey::new).map(Self)
    }

    /// `None` if the system or the cipher fails.
    pub(crate) fn seal(&self, format: u8, mut text: Vec<u8>) -> Option<String> {
        let nonce: [u8; NONCE_LEN] = random::bytes().ok()?;
        let sealing = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(sealing, Aad::from([format]), &mut text).ok()?;
        let mut sealed = Vec::with_capacity(1 + NONCE_LEN + text.len());
        sealed.push(format);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&text);
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// `None` if it was not sealed with this key, or as something else.
    pub(crate) fn open(&self, format: u8, sealed: &str) -> Option<Vec<u8>> {
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (&written, rest) = sealed.split_first()?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>()?;
        if written != format {
            return None;
        }
        let mut text = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.0.open_in_place(nonce, Aad::from([format]), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}
