package initproto

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A stream in a directory is a sequence of segments: files of records, named by
// the number of their first record.
//
//	records/00000000000000000001.rec   deleted first
//	records/00000000000000009120.rec
//	records/00000000000000018377.rec   written now
const (
	segmentSuffix = ".rec"
	segmentDigits = 20
)

func segmentName(first uint64) string {
	n := strconv.FormatUint(first, 10)
	return strings.Repeat("0", segmentDigits-len(n)) + n + segmentSuffix
}

// parseSegmentName returns the number of a segment's first record.
func parseSegmentName(name string) (first uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != segmentDigits {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

// listSegments returns the first record numbers of a directory's segments, in
// order.
func listSegments(dir string) ([]uint64, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var firsts []uint64
	for _, name := range names {
		if first, ok := parseSegmentName(name); ok {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	return firsts, nil
}

// measureSegment reads a segment and returns the number of its last record (0 if it has
// none) and the end of its last complete line.
func measureSegment(f io.ReaderAt) (last uint64, end int64, err error) {
	buf := make([]byte, 2*maxRecordSize)
	for {
		n, err := f.ReadAt(buf, end)
		all := errors.Is(err, io.EOF)
		if err != nil && !all {
			return 0, 0, err
		}
		window := buf[:n]
		for {
			i := bytes.IndexByte(window, '\n')
			if i < 0 {
				break
			}
			if r, err := ParseRecord(window[:i]); err == nil {
				last = max(last, r.Seq)
			}
			window = window[i+1:]
		}
		if len(window) == n && n == len(buf) {
			window = nil // damaged: a line longer than any record
		}
		end += int64(n - len(window))
		if all {
			return last, end, nil
		}
	}
}
