package backup

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Format is the version of the format of archives. Archives of format 1 are not signed.
const Format = 2

// Header is the first entry of an archive.
type Header struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	// Ingot is the program's version, DataFormat the data directory's.
	Ingot      string `json:"ingot"`
	DataFormat int    `json:"data_format"`
	// Database is the kind of database, Schemas are the versions of its tables.
	Database string           `json:"database"`
	Schemas  map[string]int64 `json:"schemas"`
}

// NewID returns the id of a backup that begins now.
func NewID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
}

// Manifest is the last entry of an archive: what it consists of.
type Manifest struct {
	Header
	Finished time.Time `json:"finished"`
	// Position is where the write-ahead log of PostgreSQL was when the snapshot was taken.
	Position string `json:"position,omitempty"`
	Files    []File `json:"files"`
	Blobs    []Blob `json:"blobs"`
	// Missing are blobs that the server itself does not have any more.
	Missing []string `json:"missing,omitempty"`
	// Entries is the checksum of all entries before the manifest, in their order: also of those
	// that a later one of the same name replaced, or that nothing needs any more.
	Entries string `json:"entries_sha256,omitempty"`
	// Signer is the trusted key that signed it; empty means that it is not signed. It is set when
	// an archive is read.
	Signer string `json:"-"`
}

// File is a file in the archive.
type File struct {
	Name   string      `json:"name"`
	Size   int64       `json:"size"`
	SHA256 string      `json:"sha256"`
	Mode   fs.FileMode `json:"mode"`
}

// Blob is a package, droplet or buildpack.
type Blob struct {
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Object is its name in the repository; empty if it is in the archive.
	Object string `json:"object,omitempty"`
}

// blobPrefix begins the names of blobs in an archive.
const blobPrefix = "blobs/"

// Name is the name of the blob in an archive.
func (b Blob) Name() string { return blobPrefix + b.Kind + "/" + b.Key }

// ParseBlobName returns the kind and key of a name in an archive, if it is a blob's.
func ParseBlobName(name string) (kind, key string, ok bool) {
	rest, ok := strings.CutPrefix(name, blobPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// Find returns a file.
func (m *Manifest) Find(name string) (File, bool) {
	for _, f := range m.Files {
		if f.Name == name {
			return f, true
		}
	}
	return File{}, false
}

// NewerError means that a newer program wrote the archive.
type NewerError struct{ Wrote, What string }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the backup was made by ingot %s, which is newer than this program (%s): use that version or a "+
		"newer one. Nothing was changed", e.Wrote, e.What)
}
