//! Everything that is known about who may do what, at one time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::check::{AccessError, Reader};
use super::network::Network;
use super::options::Options;
use super::principal::{Credentials, Denied, Identity, Principal};
use super::rule::{Decision, May, Operation, Resource, Rule};
use super::token::{FingerprintKey, TokenEntry, TokenId};

/// Identities and rules.
#[derive(Debug, Default)]
pub struct Table {
    pub(super) tokens: HashMap<TokenId, Arc<TokenEntry>>,
    /// The narrowest first.
    pub(super) networks: Vec<(Network, Principal)>,
    pub(super) certificates: HashMap<String, Principal>,
    pub(super) rules: Vec<Rule>,
    /// For tokens; there is one if there are any.
    pub(super) key: Option<Arc<FingerprintKey>>,
}

impl Table {
    /// Reads a configuration, and the file of tokens that it names.
    pub fn build(options: &Options) -> Result<Self, AccessError> {
        let mut reader = Reader::default();
        let mut table = reader.read(options);
        if let Some(problems) = reader.problems() {
            return Err(AccessError { problems });
        }
        if !table.tokens.is_empty() {
            let key = FingerprintKey::random().map_err(AccessError::no_random)?;
            table.key = Some(Arc::new(key));
        }
        table.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix()));
        Ok(table)
    }

    /// The rules alone, for whoever asks what they allow and has not the file of tokens.
    pub fn rules_of(options: &Options) -> Result<Self, AccessError> {
        let options = Options { tokens_file: String::new(), ..options.clone() };
        Self::build(&options)
    }

    /// Whether there are rules.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Takes over from the table before it which tokens are known to be right.
    pub(super) fn adopt(&mut self, before: &Self) {
        let (Some(_), Some(key)) = (&self.key, &before.key) else { return };
        self.key = Some(Arc::clone(key));
        for (id, entry) in &mut self.tokens {
            if let Some(known) = before.tokens.get(id).filter(|known| known.is_as(entry)) {
                *entry = Arc::clone(known);
            }
        }
    }

    /// How many tokens and how many rules there are.
    pub fn counts(&self) -> (usize, usize) {
        (self.tokens.len(), self.rules.len())
    }

    /// Whether nobody is asked for anything: a token that somebody shows all the same means nothing.
    fn is_off(&self) -> bool {
        self.rules.is_empty() && self.tokens.is_empty()
    }

    /// Who somebody is, if that takes no hashing of a token.
    pub fn authenticate_now(&self, shown: &Credentials<'_>) -> Option<Result<Identity, Denied>> {
        self.authenticate_by(shown, TokenEntry::is_now)
    }

    /// Who somebody is: by a token, else by a certificate, else by the network, else anonymous. May take a millisecond.
    pub fn authenticate(&self, shown: &Credentials<'_>) -> Result<Identity, Denied> {
        self.authenticate_by(shown, |entry, token, key| Some(entry.is(token, key)))
            .unwrap_or(Err(Denied::Token))
    }

    fn authenticate_by(
        &self,
        shown: &Credentials<'_>,
        is: impl FnOnce(&TokenEntry, &[u8], &FingerprintKey) -> Option<bool>,
    ) -> Option<Result<Identity, Denied>> {
        let Some(token) = shown.token.filter(|_| !self.is_off()) else {
            let found = self.without_token(shown.certificate, shown.address);
            let proven = shown.certificate.is_some();
            return Some(found.map(|principal| Identity::of(principal, proven)));
        };
        let entry = TokenId::of(token).and_then(|id| self.tokens.get(&id));
        // One that is wrong is refused: whoever has it thinks that he is somebody.
        let (Some(entry), Some(key)) = (entry, &self.key) else { return Some(Err(Denied::Token)) };
        Some(if is(entry, token, key)? {
            let principal = entry.principal.clone();
            Ok(Identity { principal, proven: true, token: Some(Arc::clone(entry)) })
        } else {
            Err(Denied::Token)
        })
    }

    fn without_token(
        &self,
        certificate: Option<&str>,
        address: IpAddr,
    ) -> Result<Principal, Denied> {
        if let Some(subject) = certificate {
            if let Some(principal) = self.certificates.get(subject) {
                return Ok(principal.clone());
            }
            return Principal::parse(subject).map_err(|_| Denied::Certificate);
        }
        let found = self.networks.iter().find(|(network, _)| network.contains(address));
        Ok(found.map_or_else(Principal::anonymous, |(_, principal)| principal.clone()))
    }

    /// Whether somebody who was let in by another table would be the same one in this. `shown` has no token.
    pub fn stands(&self, identity: &Identity, shown: &Credentials<'_>) -> bool {
        match &identity.token {
            Some(token) => {
                let now = self.tokens.get(&token.hash.id());
                now.is_some_and(|now| now.is_as(token))
            }
            None => {
                self.without_token(shown.certificate, shown.address).as_ref()
                    == Ok(&identity.principal)
            }
        }
    }

    /// Whether somebody may do something, and which rule says so.
    pub fn decide(
        &self,
        principal: &Principal,
        operation: Operation,
        resource: &Resource<'_>,
    ) -> Decision {
        if self.rules.is_empty() {
            return Decision::Open;
        }
        let allows = |rule: &Rule| rule.is_about(principal) && rule.allows(operation, resource);
        self.rules.iter().position(allows).map_or(Decision::Denied, Decision::Allowed)
    }

    /// As [`decide`](Self::decide); the words for the refusal if it is one.
    pub fn allow(
        &self,
        principal: &Principal,
        operation: Operation,
        resource: Resource<'_>,
    ) -> Result<(), String> {
        if self.decide(principal, operation, &resource).is_allowed() {
            return Ok(());
        }
        Err(May(principal, operation, resource).to_string())
    }

    /// Whether somebody may do this to anything at all.
    pub fn may_some(&self, principal: &Principal, operation: Operation) -> bool {
        let some = |rule: &Rule| rule.is_about(principal) && rule.has(operation);
        self.rules.is_empty() || self.rules.iter().any(some)
    }
}
