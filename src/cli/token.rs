//! `hermitmq token`: making tokens; and the token that the other commands show a broker.

use std::path::Path;

use crate::access::{self, Principal};
use crate::protocol::v1_1::Token;

use super::failure::Failure;
use super::show;

/// The environment variable that holds a token.
const TOKEN_ENV: &str = "HERMITMQ_TOKEN";

/// The one that names a file with a token.
const TOKEN_FILE_ENV: &str = "HERMITMQ_TOKEN_FILE";

/// Makes a token and prints it with what the broker is to be told: the only time that anybody sees it.
pub(super) fn generate(principal: Option<&str>) -> Result<(), Failure> {
    let principal = principal.unwrap_or("PRINCIPAL");
    Principal::parse(principal).map_err(|error| Failure::Usage(error.to_string()))?;
    let made =
        access::generate().map_err(|error| Failure::runtime("cannot make a token", &error))?;
    let text = format!(
        "# The token, for the client. It is shown this once and cannot be had again.\n{}\n\
         # The line for the file that access.tokens_file names.\n{principal}:{}\n",
        made.token, made.hash
    );
    show::print(text.as_bytes())
}

/// The token to show: of the file, else of the environment, which holds one or names a file.
pub(super) fn find(file: Option<&Path>) -> Result<Option<Token>, Failure> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let text = match (file, variable(TOKEN_ENV), variable(TOKEN_FILE_ENV)) {
        (Some(file), ..) => read(file)?,
        (None, Some(token), _) => token
            .into_string()
            .map_err(|_| Failure::Usage(format!("{TOKEN_ENV} is not valid UTF-8")))?,
        (None, None, Some(file)) => read(Path::new(&file))?,
        (None, None, None) => return Ok(None),
    };
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(Failure::Usage("the token must be one word".to_owned()));
    }
    Token::new(token).map(Some).map_err(|error| Failure::Usage(error.to_string()))
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))
}
