// Ingot-sftp serves the files of an app instance to sftp and scp, over its
// standard input and output. The ssh gateway starts it inside the instance, as
// the instance's user; therefore it must be static, and uses the standard library
// only. With --replace DIR it replaces files of a directory by those of a tar stream
// on its standard input: so the server renews the certificates of instances.
package main

import (
	"fmt"
	"os"

	"ingot/internal/platform/sshd/sftp"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 1:
		err = sftp.Serve(os.Stdin, os.Stdout)
	case len(os.Args) == 3 && os.Args[1] == "--replace":
		err = sftp.Replace(os.Args[2], os.Stdin)
	default:
		fmt.Fprintln(os.Stderr, "ingot-sftp: it takes no arguments; it speaks SFTP on standard input and output, and is started by `ingot up`")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ingot-sftp:", err)
		os.Exit(1)
	}
}
