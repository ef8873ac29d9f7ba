//! The environment of a child: three fixed variables, a fourth on a terminal, then the Owner's, then the client's. Nothing
//! of the server's.

use crate::config::{Profile, env_names, limits::MAX_CLIENT_ENV};

use super::EnvRefused;

/// What every child starts from.
const BASE: [(&str, &str); 3] = [
    ("PATH", "/usr/bin:/bin"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
];

/// What programs on a terminal are told of it: that its screen understands what xterm does, in 256 colours.
const TERM: (&str, &str) = ("TERM", "xterm-256color");

/// Fits an environment to a terminal. The size isn't in it: variables would go on telling it when it has changed.
pub(super) fn on_terminal(env: &mut Vec<(String, String)>) {
    env.retain(|(name, _)| !matches!(name.as_str(), "COLORTERM" | "COLUMNS" | "LINES"));
    set(env, TERM.0, TERM.1);
}

/// The whole environment of a child of `profile`, one entry per name; of two values for a name the later counts,
/// in the order base, profile, client.
///
/// # Errors
/// The first of `client` that is refused, by name; nothing is set then.
pub fn child_env(
    profile: &Profile,
    client: &[(String, String)],
    terminal: bool,
) -> Result<Vec<(String, String)>, EnvRefused> {
    if client.len() > MAX_CLIENT_ENV {
        return Err(EnvRefused::TooMany(client.len()));
    }
    for (name, value) in client {
        permitted(profile, name, value)?;
    }
    let mut env: Vec<(String, String)> = BASE
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    if terminal {
        on_terminal(&mut env);
    }
    for (name, value) in profile.env.iter().chain(client) {
        set(&mut env, name, value);
    }
    Ok(env)
}

/// A variable that the profile fixes needs no rule of its own: whatever isn't in `allowed_env` is refused.
fn permitted(profile: &Profile, name: &str, value: &str) -> Result<(), EnvRefused> {
    if env_names::denied(name).is_some() {
        return Err(EnvRefused::Denied(name.to_owned()));
    }
    if !profile.allowed_env.iter().any(|allowed| allowed == name) {
        return Err(EnvRefused::NotApproved(name.to_owned()));
    }
    if value.contains('\0') {
        return Err(EnvRefused::NulInValue(name.to_owned()));
    }
    Ok(())
}

fn set(env: &mut Vec<(String, String)>, name: &str, value: &str) {
    match env.iter_mut().find(|(present, _)| present == name) {
        Some((_, present)) => value.clone_into(present),
        None => env.push((name.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn on_pipes(
        profile: &Profile,
        client: &[(String, String)],
    ) -> Result<Vec<(String, String)>, EnvRefused> {
        child_env(profile, client, false)
    }

    #[test]
    fn on_a_terminal_there_is_a_fourth_which_the_owner_may_replace() {
        let names = |profile: &Profile| child_env(profile, &[], true).unwrap().pop();
        assert_eq!(
            names(&profile(&[], &[])),
            Some(("TERM".to_owned(), "xterm-256color".to_owned()))
        );
        assert_eq!(
            names(&profile(&[], &[("TERM", "dumb")])),
            Some(("TERM".to_owned(), "dumb".to_owned()))
        );
    }

    fn profile(allowed_env: &[&str], env: &[(&str, &str)]) -> Profile {
        Profile {
            allowed_env: allowed_env.iter().map(|name| name.to_string()).collect(),
            env: owned(env),
            ..Profile::new("p", vec!["/bin/true".into()])
        }
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn a_child_starts_from_exactly_three_variables() {
        let env = on_pipes(&profile(&[], &[]), &[]).unwrap();
        assert_eq!(
            env,
            owned(&[
                ("PATH", "/usr/bin:/bin"),
                ("LANG", "C.UTF-8"),
                ("LC_ALL", "C.UTF-8")
            ])
        );
    }

    #[test]
    fn the_owner_replaces_the_base_and_the_client_what_it_may() {
        let profile = profile(
            &["LANG", "MODE"],
            &[("PATH", "/opt/bin"), ("HOME", "/srv"), ("MODE", "owner")],
        );
        assert_eq!(
            on_pipes(
                &profile,
                &owned(&[("MODE", "a"), ("LANG", "de_DE"), ("MODE", "b")])
            ),
            Ok(owned(&[
                ("PATH", "/opt/bin"),
                ("LANG", "de_DE"),
                ("LC_ALL", "C.UTF-8"),
                ("HOME", "/srv"),
                ("MODE", "b"),
            ]))
        );
    }

    #[test]
    fn the_client_cannot_change_what_the_owner_fixed() {
        let profile = profile(&["OTHER"], &[("MODE", "owner")]);
        assert_eq!(
            on_pipes(&profile, &owned(&[("MODE", "client")])),
            Err(EnvRefused::NotApproved("MODE".into()))
        );
    }

    #[test]
    fn denied_names_are_refused_even_where_a_profile_lists_them() {
        let listed = [
            "LD_PRELOAD",
            "PATH",
            "BASH_ENV",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "GIT_SSH_COMMAND",
            "PAGER",
            "ld_preload",
            "A=B",
            "",
            "a\0b",
            "SAFE_LABEL",
        ];
        let profile = profile(&listed, &[]);
        for name in &listed[..11] {
            assert_eq!(
                on_pipes(&profile, &owned(&[("SAFE_LABEL", "x"), (name, "x")])),
                Err(EnvRefused::Denied(name.to_string()))
            );
        }
        assert!(on_pipes(&profile, &owned(&[("SAFE_LABEL", "x")])).is_ok());
    }

    #[test]
    fn approval_is_for_the_exact_spelling() {
        assert_eq!(
            on_pipes(&profile(&["Mode"], &[]), &owned(&[("MODE", "x")])),
            Err(EnvRefused::NotApproved("MODE".into()))
        );
    }

    #[test]
    fn a_value_with_a_nul_is_refused() {
        assert_eq!(
            on_pipes(&profile(&["A"], &[]), &owned(&[("A", "x\0y")])),
            Err(EnvRefused::NulInValue("A".into()))
        );
    }

    #[test]
    fn thirty_two_variables_pass_and_thirty_three_do_not() {
        let names: Vec<String> = (0..33).map(|n| format!("V{n}")).collect();
        let listed: Vec<&str> = names.iter().map(String::as_str).collect();
        let profile = profile(&listed, &[]);
        let client: Vec<(String, String)> =
            names.iter().map(|n| (n.clone(), String::new())).collect();
        assert_eq!(on_pipes(&profile, &client[..32]).unwrap().len(), 35);
        assert_eq!(on_pipes(&profile, &client), Err(EnvRefused::TooMany(33)));
    }

    proptest! {
        #[test]
        fn the_environment_is_that_of_a_map_filled_in_order(
            allowed in prop::collection::vec("[A-C]{1,2}|LANG|PATH|MY_TOKEN", 0..6),
            fixed in prop::collection::btree_map("[A-C]{1,2}|LANG|PATH", "[a-z]{0,3}", 0..5),
            client in prop::collection::vec(("[A-C]{1,2}|LANG|PATH|MY_TOKEN", "[a-z\0]{0,3}"), 0..5),
        ) {
            let mut profile = profile(&[], &[]);
            profile.allowed_env = allowed.clone();
            profile.env = fixed.clone().into_iter().collect();
            let refused = client.iter().any(|(name, value)| {
                ["PATH", "MY_TOKEN"].contains(&name.as_str()) || !allowed.contains(name) || value.contains('\0')
            });
            match on_pipes(&profile, &client) {
                Err(_) => prop_assert!(refused),
                Ok(env) => {
                    prop_assert!(!refused);
                    let mut expected: BTreeMap<String, String> = owned(&BASE).into_iter().collect();
                    expected.extend(fixed);
                    expected.extend(client);
                    let as_map: BTreeMap<String, String> = env.iter().cloned().collect();
                    prop_assert_eq!(as_map.len(), env.len());
                    prop_assert_eq!(as_map, expected);
                }
            }
        }
    }
}
