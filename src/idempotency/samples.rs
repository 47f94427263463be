//! A policy and a claim for the tests of the core; not what `config` would resolve, but close to its defaults.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode, header};

use super::{
    Fingerprint,
    policy::{
        Anonymous, BodyForm, FingerprintRules, HeaderNameOrd, InFlight, KeyRules, Mode, OnStoreDown, OnUnknown, Policy,
        ReplayRules, ScopeRules, ScopeSource, StatusClasses,
    },
    record::{CallerTag, Claim, ClaimToken, RouteName, WallMillis},
    scope::RecordKey,
};

/// The defaults of CONTRACT §6.
pub(super) fn policy() -> Policy {
    Policy {
        mode: Mode::Enforce,
        methods: vec![Method::POST, Method::PATCH],
        key: KeyRules {
            header: HeaderName::from_static("idempotency-key"),
            required: false,
            max_length: 255,
            pattern: None,
        },
        scope: ScopeRules {
            sources: [header::AUTHORIZATION, HeaderName::from_static("x-api-key")]
                .map(|name| ScopeSource::Header(HeaderNameOrd(name)))
                .to_vec(),
            anonymous: Anonymous::Reject,
        },
        fingerprint: FingerprintRules { body: BodyForm::Raw, ignore: Vec::new(), headers: Vec::new() },
        in_flight: InFlight::Reject,
        lease: Duration::from_secs(30),
        retention: Duration::from_secs(24 * 3600),
        unknown: OnUnknown::Hold,
        outcome: StatusClasses::default(),
        mismatch_status: StatusCode::UNPROCESSABLE_ENTITY,
        max_request_body: 1 << 20,
        max_response_body: 1 << 20,
        replay: ReplayRules::default(),
        store_down: OnStoreDown::Reject,
    }
}

/// A claim under `policy`, by the claimant number `of`.
pub(super) fn claim(of: u8, policy: &Policy) -> Claim {
    Claim {
        key: RecordKey([7; 32]),
        token: ClaimToken([of; 16]),
        fingerprint: Fingerprint([8; 32]),
        caller: CallerTag([9; 32]),
        route: RouteName::from("create-payment"),
        began: WallMillis(1_700_000_000_000),
        lease: policy.lease,
        retention: policy.retention,
    }
}
