// Package rootless describes the namespaces of a process that is root of a user namespace of an ordinary
// user. The namespaces are made by server/rootless, see decision 53.
//
// Such a process has the user's network, and instances have one of their own: a dial to an instance or a
// listener for instances is made by Dial or InNet. In any other process, InNet only calls its function.
//
// Imports: base/background, golang.org/x/sys/unix.
package rootless
