// Package sftp is a small SFTP server, version 3 of the protocol with the
// extensions that OpenSSH's sftp and scp use. It serves the files that its
// process can see over standard input and output, so it must run inside the
// instance, in a program such as
//
//	func main() { _ = sftp.Serve(os.Stdin, os.Stdout) }
//
// whose path there is in sshd.Config.SFTPServers.
//
// The client has the permissions of the process.
//
// Imports: the standard library only.
package sftp
