// Package shell is an ssh client for app instances: a shell or a command, with or
// without a terminal, and port forwarding. It needs no ssh program.
//
// It must not import anything of this module.
//
// Imports: golang.org/x/crypto/ssh.
package shell
