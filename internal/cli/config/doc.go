// Package config stores the client's state between commands: the API, the login,
// the targeted org and space. It also finds a server on the same machine, so that
// no login is needed to try things out.
//
// The file is $INGOT_HOME/config.json, else $XDG_CONFIG_HOME/ingot/config.json,
// else ~/.config/ingot/config.json. It holds tokens: only its owner can read it,
// and it is replaced atomically.
//
// It must not import the client or anything of the server.
//
// Imports: the standard library only.
package config
