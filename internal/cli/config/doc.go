// Package config stores the client's state between commands: contexts, which are servers
// with the login there and the targeted org and space. It also finds a server on the same
// machine, so that no login is needed to try things out.
//
// The file is $INGOT_HOME/config.json, else $XDG_CONFIG_HOME/ingot/config.json,
// else ~/.config/ingot/config.json. It holds tokens: only its owner can read it,
// it is replaced atomically, and commands that write it take turns. The context cf is
// the configuration of the cf CLI, $CF_HOME/.cf/config.json or ~/.cf/config.json.
//
// It must not import the client or anything of the server.
//
// Imports: base/filelock, base/pattern.
package config
