package mounts

import "fmt"

// Option is a mount option that forbids something.
type Option string

const (
	// NoExec forbids executing programs.
	NoExec Option = "noexec"
	// NoSymlinks forbids following symbolic links.
	NoSymlinks Option = "nosymfollow"
)

// opposite is the option for remount that allows it again.
var opposite = map[Option]string{NoExec: "exec", NoSymlinks: "symfollow"}

// OptionError means that a directory is on a mount with an option that forbids what the
// directory is used for.
type OptionError struct {
	Path   string
	Point  string // where the mount is
	Option Option
}

// Remount returns the command that allows what the option forbids.
func (e *OptionError) Remount() string {
	return "mount -o remount," + opposite[e.Option] + " " + e.Point
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("%s is on a mount with %s (%s); allow it with '%s'", e.Path, e.Option, e.Point, e.Remount())
}

// Mount is one line of the mount table.
type Mount struct {
	Point, Kind, Source string
	Super               string // options of the file system
	id                  string
}
