// Package config keeps what the client remembers between two commands: which
// API, who is logged in, which org and space. It also finds the server that
// runs on the same machine, so that nobody has to log in to try things out.
//
// The file is $INGOT_HOME/config.json, else $XDG_CONFIG_HOME/ingot/config.json,
// else ~/.config/ingot/config.json. It holds tokens: nobody but its owner may
// read it, and it is replaced as a whole.
//
// It must not import the client or anything of the server.
//
// Imports: the standard library only.
package config
