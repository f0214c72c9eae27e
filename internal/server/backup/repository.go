package backup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"ingot/internal/base/background"
)

// Objects are the objects of a repository: the files of a folder, or a part of a bucket.
type Objects interface {
	// Put stores all of r as an object, and replaces an existing one. After an error, or
	// if the process is killed, nothing has changed.
	Put(ctx context.Context, name string, r io.Reader) (size int64, err error)
	// Open opens an object. It returns fs.ErrNotExist if there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls each with the objects whose names begin with a prefix, in any order, until it
	// returns an error.
	List(ctx context.Context, prefix string, each func(name string, size int64) error) error
	// Delete deletes an object. That there is none is not an error.
	Delete(ctx context.Context, name string) error
	// Lock makes sure that no other process writes or removes backups, until unlock is
	// called or this process ends. The context it returns ends if the lock is lost.
	Lock(ctx context.Context) (locked context.Context, unlock func(), err error)
	// String describes the place, without secrets.
	String() string
}

const (
	backupFolder = "backups/"
	indexSuffix  = ".json"
	sealedSuffix = ".age"
)

// Index is what a repository knows about a backup without a key.
type Index struct {
	Format   int       `json:"format"`
	ID       string    `json:"id"`
	Created  time.Time `json:"created"`
	Finished time.Time `json:"finished"`
	Ingot    string    `json:"ingot"`
	Database string    `json:"database"`
	// Size is the archive's, BlobSize the sum of its blobs'; Added is how much of both this
	// backup wrote.
	Size     int64 `json:"size"`
	BlobSize int64 `json:"blob_size"`
	Added    int64 `json:"added"`
	// Unsaved is the number of service instances whose data could not be saved.
	Unsaved int `json:"unsaved,omitempty"`
	// Objects are the names of the objects with its blobs.
	Objects []string `json:"objects"`
}

// ArchiveName is the name of the archive of a backup in a repository.
func ArchiveName(id string) string { return backupFolder + id + sealedSuffix }

// BlobObject is the name of the object of a blob for these recipients.
func (r Recipients) BlobObject(sha256 string) string {
	return blobPrefix + r.fingerprint + "/" + sha256 + sealedSuffix
}

// BlobObjects returns the names of the objects of blobs that can be used by backups for
// these recipients.
func (r Recipients) BlobObjects(ctx context.Context, o Objects) (map[string]bool, error) {
	have := map[string]bool{}
	err := o.List(ctx, blobPrefix+r.fingerprint+"/", func(name string, _ int64) error {
		have[name] = true
		return nil
	})
	return have, err
}

// PutSealed encrypts content for the recipients and stores it.
func (r Recipients) PutSealed(ctx context.Context, o Objects, name string, content io.Reader) (int64, error) {
	sealed, err := age.EncryptReader(content, r.list...)
	if err != nil {
		return 0, err
	}
	return o.Put(ctx, name, sealed)
}

// PutArchive stores the archive that write writes.
func PutArchive(ctx context.Context, o Objects, id string, write func(io.Writer) error) (int64, error) {
	out, in := io.Pipe()
	done := background.Async("write backup", func() error {
		err := write(in)
		_ = in.CloseWithError(err) // never fails
		return err
	})
	size, err := o.Put(ctx, ArchiveName(id), out)
	_ = out.CloseWithError(cmp.Or(err, errors.New("the backup is not written any more"))) // never fails
	wrote := <-done
	if err != nil && wrote != nil && errors.Is(wrote, err) {
		return size, err
	}
	return size, cmp.Or(err, wrote)
}

// Commit makes a backup exist.
func Commit(ctx context.Context, o Objects, i Index) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	_, err = o.Put(ctx, backupFolder+i.ID+indexSuffix, bytes.NewReader(text))
	return err
}

// maxIndex limits what is read of an index: the names of a million blobs.
const maxIndex = 128 << 20

// List returns the backups of a repository, the oldest first.
func List(ctx context.Context, o Objects) ([]Index, error) {
	var all []Index
	err := o.List(ctx, backupFolder, func(name string, _ int64) error {
		if !strings.HasSuffix(name, indexSuffix) {
			return nil
		}
		i, err := readIndex(ctx, o, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // pruned meanwhile
		}
		if err != nil {
			return fmt.Errorf("%s: %w; --id names a backup to be used, whatever the others are", name, err)
		}
		all = append(all, i)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Index) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

func readIndex(ctx context.Context, o Objects, name string) (i Index, err error) {
	r, err := o.Open(ctx, name)
	if err != nil {
		return i, err
	}
	defer r.Close()
	if err := json.NewDecoder(io.LimitReader(r, maxIndex)).Decode(&i); err != nil {
		return i, err
	}
	if i.Format > Format {
		return i, &NewerError{i.Ingot, fmt.Sprintf("format %d of backups, known up to %d", i.Format, Format)}
	}
	if name != backupFolder+i.ID+indexSuffix {
		return i, fmt.Errorf("it is that of another backup, %q", i.ID)
	}
	return i, nil
}

// Check returns an error if an archive does not match the index, which is not signed and decides
// which backup is the newest.
func (i Index) Check(m *Manifest) error {
	if m.ID != i.ID || !m.Created.Equal(i.Created) {
		return &DamagedError{fmt.Errorf("%s says that it was made at %s, but there is the backup %s of %s",
			i.ID, i.Created.UTC().Format(time.RFC3339), m.ID, m.Created.UTC().Format(time.RFC3339))}
	}
	return nil
}

// ErrNoBackup means that a repository has no such backup.
var ErrNoBackup = errors.New("there is no such backup; 'ingot backup list' shows those that exist")

// Find returns a backup by its id, or the newest if the id is empty.
func Find(ctx context.Context, o Objects, id string) (Index, error) {
	if id != "" { // whatever the others are
		if strings.ContainsAny(id, "/\\") {
			return Index{}, ErrNoBackup
		}
		i, err := readIndex(ctx, o, backupFolder+id+indexSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNoBackup
		}
		return i, err
	}
	all, err := List(ctx, o)
	if err != nil {
		return Index{}, err
	}
	if len(all) == 0 {
		return Index{}, ErrNoBackup
	}
	return all[len(all)-1], nil
}

// Pruned is what Prune removed.
type Pruned struct {
	Backups []string
	Objects int
	Size    int64
}

// Prune removes all backups but the newest, and objects that no backup needs. The caller
// holds the lock.
func Prune(ctx context.Context, o Objects, keep int) (p Pruned, err error) {
	if keep < 1 {
		return p, errors.New("at least one backup is kept")
	}
	all, err := List(ctx, o)
	if err != nil {
		return p, err
	}
	gone := all[:max(0, len(all)-keep)]
	needed := map[string]bool{}
	for _, i := range all[len(gone):] {
		needed[ArchiveName(i.ID)], needed[backupFolder+i.ID+indexSuffix] = true, true
		for _, name := range i.Objects {
			needed[name] = true
		}
	}
	// The index first, so that no backup exists without its parts.
	for _, i := range gone {
		if err := o.Delete(ctx, backupFolder+i.ID+indexSuffix); err != nil {
			return p, err
		}
		p.Backups = append(p.Backups, i.ID)
	}
	for _, folder := range []string{backupFolder, blobPrefix} {
		unused := map[string]int64{} // sizes, by name
		err := o.List(ctx, folder, func(name string, size int64) error {
			if strings.HasSuffix(name, sealedSuffix) && !needed[name] {
				unused[name] = size
			}
			return nil
		})
		if err != nil {
			return p, err
		}
		for name, size := range unused {
			if err := o.Delete(ctx, name); err != nil {
				return p, err
			}
			p.Objects, p.Size = p.Objects+1, p.Size+size
		}
	}
	return p, nil
}
