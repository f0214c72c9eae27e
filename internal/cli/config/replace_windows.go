package config

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// replace renames a file, in place of another. Windows refuses it while another command
// reads that file, which takes a moment.
func replace(from, to string) error {
	for patience := 50; ; patience-- {
		err := os.Rename(from, to)
		if patience == 0 || !errors.Is(err, windows.ERROR_ACCESS_DENIED) && !errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
