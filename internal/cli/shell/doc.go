// Package shell is the ssh client that gets developers into the instances of
// their apps: a shell or a command, with or without a terminal, and ports
// forwarded from here. It needs no ssh program.
//
// It must not import anything of this module.
//
// Imports: golang.org/x/crypto/ssh.
package shell
