//! Bodies of administrative requests: a value, or a refusal in words. A byte says of which request.

use hermitmq::admin::RequestBody;
use hermitmq::model::limits::ADMIN_BODY_BYTES_MAX;

pub fn run(data: &[u8]) {
    let Some((which, body)) = data.split_first() else { return };
    let body = &body[..body.len().min(ADMIN_BODY_BYTES_MAX)];
    let which = RequestBody::ALL[usize::from(*which) % RequestBody::ALL.len()];
    let read = which.read(body);
    assert_eq!(which.read(body), read, "twice the same");
    match read {
        Ok(_) => {
            let value: serde_json::Value = serde_json::from_slice(body).expect("JSON alone");
            assert!(value.is_object(), "one object, and nothing beside it");
            // White space changes nothing; a second value behind it is refused.
            assert_eq!(which.read(&[b" \n", body, b"\t "].concat()), read);
            assert!(which.read(&[body, b"{}"].concat()).is_err());
        }
        Err((status, why)) => {
            assert_eq!(status, 400, "{why}");
            assert!(!why.is_empty());
        }
    }
}
