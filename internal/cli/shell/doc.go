// Package shell is the ssh client that gets developers into the instances of
// their apps: a shell or a command, with or without a terminal, and ports
// forwarded from here. It needs no ssh program.
//
// It imports x/crypto/ssh, x/term and the standard library. It must not import
// anything of this module.
package shell
