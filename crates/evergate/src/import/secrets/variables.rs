//! The variables that somebody has to set, each with one value.

use crate::import::Asked;
use crate::import::references::variable_name;

/// A variable that somebody has to set.
pub(crate) struct Variable {
    pub(crate) name: String,
    /// What it must be set to, if a source has that. Never shown.
    value: Option<String>,
    /// Where that is, or who wants it.
    pub(crate) places: Vec<String>,
    /// Everything works without it.
    pub(crate) optional: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Variables(pub(crate) Vec<Variable>);

// === impl Variables ===

impl Variables {
    pub(in crate::import) fn wanted(&mut self, asked: &Asked, by: &str) {
        let place =
            asked.what.clone().map_or_else(|| by.to_owned(), |what| format!("{by}; {what}"));
        match self.0.iter_mut().find(|known| known.name == asked.variable) {
            Some(known) => {
                known.optional &= asked.optional;
                if !known.places.contains(&place) {
                    known.places.push(place);
                }
            }
            None => self.0.push(Variable {
                name: asked.variable.clone(),
                value: None,
                places: vec![place],
                optional: asked.optional,
            }),
        }
    }

    /// A variable that had a default, which is not taken over.
    pub(in crate::import) fn required(&mut self, name: &str, place: &str) {
        let asked = Asked { variable: name.to_owned(), what: None, optional: false };
        self.wanted(&asked, place);
    }

    /// The variable that stands for a secret: one that has it already, or a new one.
    pub(in crate::import) fn holding(
        &mut self,
        wanted: &str,
        server: &str,
        secret: &str,
        place: String,
    ) -> String {
        let server = variable_name(server);
        let own = if wanted.starts_with(&server) {
            wanted.to_owned()
        } else {
            format!("{server}_{wanted}")
        };
        let numbered = (2..).map(|n| format!("{own}_{n}"));
        let candidates = [wanted.to_owned(), own.clone()].into_iter().chain(numbered);
        for name in candidates {
            match self.0.iter_mut().find(|known| known.name == name) {
                None => {
                    let (value, places) = (Some(secret.to_owned()), vec![place]);
                    self.0.push(Variable { name: name.clone(), value, places, optional: false });
                    return name;
                }
                Some(known) if known.value.as_deref() == Some(secret) => {
                    known.places.push(place);
                    return name;
                }
                Some(_) => {}
            }
        }
        own
    }
}

// === impl Variable ===

impl Variable {
    /// Whether it is set, and to what the source has.
    pub(crate) fn state(&self, environment: &dyn Fn(&str) -> Option<String>) -> &'static str {
        match (environment(&self.name), &self.value) {
            (None, _) => "not set",
            (Some(now), Some(meant)) if now != *meant => "set, but to something else",
            (Some(_), _) => "set",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variable_holds_one_secret() {
        let mut variables = Variables::default();
        let mut hold =
            |server: &str, secret: &str| variables.holding("TOKEN", server, secret, "x".into());
        assert_eq!(hold("a", "1"), "TOKEN");
        assert_eq!(hold("b", "1"), "TOKEN");
        assert_eq!(hold("b", "2"), "B_TOKEN");
        assert_eq!(hold("b", "3"), "B_TOKEN_2");
        let set = |name: &str| (name == "TOKEN").then(|| "9".to_owned());
        assert_eq!(variables.0[0].state(&set), "set, but to something else");
        assert_eq!(variables.0[1].state(&set), "not set");
    }
}
