// Package sftp is a small SFTP server, version 3 of the protocol with the
// extensions that OpenSSH's sftp and scp use. It serves the files that its
// process can see over standard input and output, so it has to run inside the
// instance: a program for that is
//
//	func main() { _ = sftp.Serve(os.Stdin, os.Stdout) }
//
// and its path there belongs into sshd.Config.SFTPServers.
//
// What the client may do is what the operating system lets the process do.
//
// Imports: the standard library only.
package sftp
