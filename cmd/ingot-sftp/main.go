// Ingot-sftp serves the files of an app instance to sftp and scp, over its
// standard input and output. The ssh gateway starts it inside the instance, as
// the instance's user; therefore it must be static, and uses the standard library
// only.
package main

import (
	"fmt"
	"os"

	"ingot/internal/platform/sshd/sftp"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "ingot-sftp: it takes no arguments; it speaks SFTP on standard input and output, and is started by `ingot up`")
		os.Exit(2)
	}
	if err := sftp.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ingot-sftp:", err)
		os.Exit(1)
	}
}
