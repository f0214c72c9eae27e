package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// Tags of an rpm header that a repository repeats:
// https://rpm-software-management.github.io/rpm/manual/tags.html
const (
	rpmTagName        = 1000
	rpmTagVersion     = 1001
	rpmTagRelease     = 1002
	rpmTagSummary     = 1004
	rpmTagDescription = 1005
	rpmTagBuildTime   = 1006
	rpmTagBuildHost   = 1007
	rpmTagSize        = 1009
	rpmTagLicense     = 1014
	rpmTagPackager    = 1015
	rpmTagArch        = 1022
	rpmTagFileModes   = 1030
	rpmTagSourceRPM   = 1044
	rpmTagProvides    = 1047
	rpmTagRequires    = 1049
	rpmTagDirIndexes  = 1116
	rpmTagBaseNames   = 1117
	rpmTagDirNames    = 1118
	rpmTagRecommends  = 5046
)

// rpmHeader is the header of an rpm package: values by tag.
type rpmHeader struct {
	start, end int // in the package
	tags       map[uint32]rpmValue
}

type rpmValue struct {
	kind, count uint32
	data        []byte // from its offset to the end of the header
}

var errRPM = errors.New("damaged rpm package")

// readRPM reads the header of a package, which comes after the lead and the signatures.
func readRPM(archive []byte) (*rpmHeader, error) {
	const lead = 96
	if len(archive) < lead || !bytes.HasPrefix(archive, []byte{0xed, 0xab, 0xee, 0xdb}) {
		return nil, errors.New("not an rpm package")
	}
	signatures, err := readRPMHeader(archive, lead)
	if err != nil {
		return nil, err
	}
	return readRPMHeader(archive, (signatures.end+7)/8*8)
}

func readRPMHeader(archive []byte, start int) (*rpmHeader, error) {
	const intro, entry, most = 16, 16, 1 << 28
	if len(archive) < start+intro || !bytes.HasPrefix(archive[start:], []byte{0x8e, 0xad, 0xe8, 1}) {
		return nil, errRPM
	}
	count := binary.BigEndian.Uint32(archive[start+8:])
	size := binary.BigEndian.Uint32(archive[start+12:])
	if count > most || size > most || len(archive)-start-intro < int(count)*entry+int(size) {
		return nil, errRPM
	}
	values := start + intro + int(count)*entry
	h := &rpmHeader{start: start, end: values + int(size), tags: map[uint32]rpmValue{}}
	for i := range int(count) {
		at := archive[start+intro+i*entry:]
		offset := binary.BigEndian.Uint32(at[8:])
		if offset > size {
			return nil, errRPM
		}
		h.tags[binary.BigEndian.Uint32(at)] = rpmValue{
			binary.BigEndian.Uint32(at[4:]), binary.BigEndian.Uint32(at[12:]), archive[values+int(offset) : h.end],
		}
	}
	return h, nil
}

// strings returns the strings of a tag; there are none if the tag is missing.
func (h *rpmHeader) strings(tag uint32) []string {
	v := h.tags[tag]
	parts := strings.SplitN(string(v.data), "\x00", int(v.count)+1)
	return parts[:min(int(v.count), len(parts))]
}

func (h *rpmHeader) text(tag uint32) string { return strings.Join(h.strings(tag), "\n") }

// numbers returns the numbers of a tag, which have 16 or 32 bits.
func (h *rpmHeader) numbers(tag uint32) []int {
	const bits16 = 3
	v := h.tags[tag]
	var all []int
	for range v.count {
		switch {
		case v.kind == bits16 && len(v.data) >= 2:
			all = append(all, int(binary.BigEndian.Uint16(v.data)))
			v.data = v.data[2:]
		case v.kind != bits16 && len(v.data) >= 4:
			all = append(all, int(binary.BigEndian.Uint32(v.data)))
			v.data = v.data[4:]
		}
	}
	return all
}

// rpmFile is a file of a package, as repositories list it.
type rpmFile struct {
	Type string `xml:"type,attr,omitempty"`
	Name string `xml:",chardata"`
}

// files returns the files of the package.
func (h *rpmHeader) files() ([]rpmFile, error) {
	dirs, modes, index := h.strings(rpmTagDirNames), h.numbers(rpmTagFileModes), h.numbers(rpmTagDirIndexes)
	var all []rpmFile
	for i, name := range h.strings(rpmTagBaseNames) {
		if i >= len(modes) || i >= len(index) || index[i] >= len(dirs) {
			return nil, errRPM
		}
		f := rpmFile{Name: dirs[index[i]] + name}
		if modes[i]&0o40000 != 0 {
			f.Type = "dir"
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b rpmFile) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
