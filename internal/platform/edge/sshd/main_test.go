package sshd_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"ingot/internal/platform/edge/sshd/sftp"
)

// serveFiles makes the test program an sftp server, for tests that need one
// "inside the instance".
const serveFiles = "INGOT_TEST_SFTP"

func TestMain(m *testing.M) {
	if os.Getenv(serveFiles) != "" {
		if err := sftp.Serve(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
