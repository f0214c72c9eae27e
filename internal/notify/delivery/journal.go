package delivery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"ingot/internal/base/datadir"
)

// journal records which messages were accepted until the database has them. It
// consists of two files, one of which is written: when it has grown and all its
// records are about to be committed, the other one is used, and after the
// commit the first is emptied. It is not safe for concurrent use.
//
// A record is the number of a message and a checksum. A record that was
// truncated by a crash can only be the last one and belongs to a done that
// never returned.
type journal struct {
	files [2]*os.File
	size  [2]int64
	now   int
	rec   [record]byte
	crc   *crc32.Table
}

const (
	record = 12
	// grown is the size at which the files are exchanged: small enough to be
	// read quickly, large enough to be rare.
	grown = 4000 * record
)

var journalNames = [2]string{"delivered-a.journal", "delivered-b.journal"}

// openJournal opens the files in dir and returns the numbers in them.
func openJournal(dir string, log *slog.Logger) (*journal, []int64, error) {
	j := &journal{crc: crc32.MakeTable(crc32.Castagnoli)}
	var numbers []int64
	for i, name := range journalNames {
		f, err := datadir.OpenRebuilt(filepath.Join(dir, name), os.O_RDWR|os.O_APPEND, log)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("open the delivery journal: %w", err), j.close())
		}
		j.files[i] = f
		text, err := io.ReadAll(f)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("read the delivery journal: %w", err), j.close())
		}
		numbers = j.parse(text, numbers)
		j.size[i] = int64(len(text))
	}
	return j, numbers, nil
}

// parse skips records that do not match their checksum.
func (j *journal) parse(text []byte, numbers []int64) []int64 {
	for ; len(text) >= record; text = text[record:] {
		if crc32.Checksum(text[:8], j.crc) == binary.BigEndian.Uint32(text[8:record]) {
			numbers = append(numbers, int64(binary.BigEndian.Uint64(text)))
		}
	}
	return numbers
}

// append adds a number with one write, which survives the process. After an
// error, no part of it is left in the file.
func (j *journal) append(number int64) error {
	binary.BigEndian.PutUint64(j.rec[:], uint64(number))
	binary.BigEndian.PutUint32(j.rec[8:], crc32.Checksum(j.rec[:8], j.crc))
	f := j.files[j.now]
	n, err := f.Write(j.rec[:])
	if err != nil {
		if n > 0 {
			// Otherwise the following records would be misaligned.
			err = errors.Join(err, f.Truncate(j.size[j.now]))
		}
		return err
	}
	j.size[j.now] += record
	return nil
}

// exchange switches to the other file when this one has grown, and returns
// which one can be emptied after the commit of everything appended so far; -1
// for none.
func (j *journal) exchange() int {
	if j.size[j.now] < grown || j.size[1-j.now] > 0 {
		return -1
	}
	j.now = 1 - j.now
	return 1 - j.now
}

// forget empties a file.
func (j *journal) forget(i int) error {
	if err := j.files[i].Truncate(0); err != nil {
		return err
	}
	j.size[i] = 0
	return nil
}

func (j *journal) close() error {
	var all error
	for _, f := range j.files {
		if f != nil {
			all = errors.Join(all, f.Close())
		}
	}
	return all
}
