package diskspace

import "os"

// fill writes a file, for file systems without fallocate.
func fill(f *os.File, size int64) error {
	block := make([]byte, 1<<20)
	for i := range block { // zeros might not be stored
		block[i] = byte(i*7 + i>>8)
	}
	for size > 0 {
		n, err := f.Write(block[:min(size, int64(len(block)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return f.Sync()
}
