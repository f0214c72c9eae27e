package controller

import (
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"ingot/internal/base/testkit"
)

var errNoFile = fs.ErrNotExist

// programs is where ingot-init and what instances run are built, once.
var programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "controller")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	code := m.Run()
	os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	return testkit.Build(programs, "ingot/cmd/ingot-init", "ingot/internal/platform/engine/enginetest/member")
})
