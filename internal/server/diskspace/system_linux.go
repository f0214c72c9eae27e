package diskspace

import (
	"errors"
	"os"
	"syscall"
)

// measure returns the size of the file system of dir and the space that is free
// for users other than root.
func measure(dir string) (size, free int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	block := st.Frsize
	return int64(st.Blocks) * block, int64(st.Bavail) * block, nil //nolint:gosec // far below 2^63
}

// allocated returns the size of the blocks of a file.
func allocated(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return 0
}

// hold allocates blocks for the beginning of a file without changing its size.
func hold(path string, size int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if allocated(info) >= size {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	const keepSize = 1                                      // FALLOC_FL_KEEP_SIZE
	err = syscall.Fallocate(int(f.Fd()), keepSize, 0, size) //nolint:gosec // a descriptor
	return errors.Join(err, f.Close())
}

// allocate creates a file with allocated blocks.
func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = syscall.Fallocate(int(f.Fd()), 0, 0, size) //nolint:gosec // a descriptor
	if errors.Is(err, syscall.EOPNOTSUPP) {
		err = fill(f, size)
	}
	return errors.Join(err, f.Close())
}
