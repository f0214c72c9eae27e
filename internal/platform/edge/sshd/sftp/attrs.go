package sftp

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// fileTypes has the bits of POSIX and the character of ls -l for each type of file.
var fileTypes = map[fs.FileMode]struct {
	bits uint32
	char byte
}{
	0: {syscall.S_IFREG, '-'}, fs.ModeDir: {syscall.S_IFDIR, 'd'}, fs.ModeSymlink: {syscall.S_IFLNK, 'l'},
	fs.ModeNamedPipe: {syscall.S_IFIFO, 'p'}, fs.ModeSocket: {syscall.S_IFSOCK, 's'},
	fs.ModeDevice: {syscall.S_IFBLK, 'b'}, fs.ModeDevice | fs.ModeCharDevice: {syscall.S_IFCHR, 'c'},
}

// specialBits are those of POSIX that have other positions in a fs.FileMode.
var specialBits = map[fs.FileMode]uint32{
	fs.ModeSetuid: syscall.S_ISUID, fs.ModeSetgid: syscall.S_ISGID, fs.ModeSticky: syscall.S_ISVTX,
}

// attrsOf returns the attributes of a file.
func attrsOf(info fs.FileInfo) attrs {
	a := attrs{
		flags: hasSize | hasMode | hasTimes, size: uint64(info.Size()), mode: posixMode(info.Mode()),
		atime: uint32(info.ModTime().Unix()), mtime: uint32(info.ModTime().Unix()),
	}
	addOwner(&a, info)
	return a
}

func posixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm()) | fileTypes[m.Type()].bits
	for bit, posix := range specialBits {
		if m&bit != 0 {
			mode |= posix
		}
	}
	return mode
}

// goMode returns the part of a POSIX mode that can be changed.
func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode) & fs.ModePerm
	for bit, posix := range specialBits {
		if mode&posix != 0 {
			m |= bit
		}
	}
	return m
}

// change sets the given attributes.
func change(a attrs, target interface {
	Truncate(int64) error
	Chmod(fs.FileMode) error
	Chown(uid, gid int) error
	Chtimes(atime, mtime time.Time) error
}) error {
	if a.flags&hasSize != 0 {
		if err := target.Truncate(int64(a.size)); err != nil {
			return err
		}
	}
	if a.flags&hasMode != 0 {
		if err := target.Chmod(goMode(a.mode)); err != nil {
			return err
		}
	}
	if a.flags&hasTimes != 0 {
		if err := target.Chtimes(time.Unix(int64(a.atime), 0), time.Unix(int64(a.mtime), 0)); err != nil {
			return err
		}
	}
	if a.flags&hasOwner != 0 {
		return target.Chown(int(a.uid), int(a.gid))
	}
	return nil
}

// byName and byFile change attributes by path and by open file.
type byName string

func (n byName) Truncate(size int64) error    { return os.Truncate(string(n), size) }
func (n byName) Chmod(m fs.FileMode) error    { return os.Chmod(string(n), m) }
func (n byName) Chown(uid, gid int) error     { return os.Chown(string(n), uid, gid) }
func (n byName) Chtimes(a, m time.Time) error { return os.Chtimes(string(n), a, m) }

type byFile struct{ *os.File }

// Chtimes works by path: if the file was renamed meanwhile, the client gets an error.
func (f byFile) Chtimes(a, m time.Time) error { return os.Chtimes(f.Name(), a, m) }

// longName returns a line as of ls -l.
func longName(info fs.FileInfo, a attrs) string {
	mode := info.Mode()
	return fmt.Sprintf("%c%s %4d %-8d %-8d %8d %s %s", fileTypes[mode.Type()].char, mode.Perm().String()[1:],
		1, a.uid, a.gid, info.Size(), info.ModTime().Format("Jan _2 15:04"), info.Name())
}
