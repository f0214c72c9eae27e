package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
)

// lookEvery is how often the files are compared with those in use. Notifications of the
// system are not used: they miss the renamed directories of mounted secrets.
const lookEvery = 5 * time.Second

// Pair is a file with a certificate and those of its issuers, and a file with its key, both
// in PEM format. They may be the same file.
type Pair struct{ Cert, Key string }

// Files are certificates from files.
type Files struct {
	pairs []Pair
	log   *slog.Logger
	seen  []stamps // as of the last look
	all   atomic.Pointer[[]*tls.Certificate]
}

// stamps identify the content of a pair's files.
type stamps [2]stamp

type stamp struct {
	size  int64
	mod   time.Time
	which fs.FileInfo
}

// OpenFiles reads the files. It fails if one cannot be used.
func OpenFiles(pairs []Pair, log *slog.Logger) (*Files, error) {
	f := &Files{pairs: pairs, log: log, seen: make([]stamps, len(pairs))}
	all := make([]*tls.Certificate, len(pairs))
	for i, p := range pairs {
		f.seen[i] = p.stamps()
		var err error
		if all[i], err = p.load(); err != nil {
			return nil, err
		}
	}
	f.all.Store(&all)
	return f, nil
}

// Watching returns a service that reads changed files.
func (f *Files) Watching() background.Service {
	return background.Every(lookEvery, func(context.Context) { f.look() })
}

// look reads the pairs that have changed since the last look.
func (f *Files) look() {
	next := append([]*tls.Certificate(nil), *f.all.Load()...)
	for i, p := range f.pairs {
		now := p.stamps()
		if now.same(f.seen[i]) {
			continue
		}
		f.seen[i] = now
		fresh, err := p.load()
		if err != nil {
			f.log.Error("the changed certificate cannot be used, so the previous one stays in use; correct the files",
				"certificate", p.Cert, "key", p.Key, "expires", next[i].Leaf.NotAfter, "error", err)
			continue
		}
		next[i] = fresh
		f.log.Info("uses the changed certificate", "certificate", p.Cert, "names", fresh.Leaf.DNSNames, "expires",
			fresh.Leaf.NotAfter)
	}
	f.all.Store(&next)
}

func (p Pair) load() (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", p.Cert, p.Key, err)
	}
	if time.Now().After(cert.Leaf.NotAfter) {
		return nil, fmt.Errorf("certificate %s: %w on %s", p.Cert, errExpired, cert.Leaf.NotAfter.UTC().Format(time.DateTime))
	}
	return &cert, nil
}

var errExpired = errors.New("it expired")

func (p Pair) stamps() (s stamps) {
	for i, name := range []string{p.Cert, p.Key} {
		if info, err := os.Stat(name); err == nil {
			s[i] = stamp{info.Size(), info.ModTime(), info}
		}
	}
	return s
}

func (s stamps) same(other stamps) bool {
	for i := range s {
		a, b := s[i], other[i]
		if a.size != b.size || !a.mod.Equal(b.mod) || (a.which == nil) != (b.which == nil) || a.which != nil &&
			!os.SameFile(a.which, b.which) {
			return false
		}
	}
	return true
}

// Get returns the certificate that fits the client, or nil.
func (f *Files) Get(hello *tls.ClientHelloInfo) *tls.Certificate {
	for _, cert := range *f.all.Load() {
		if hello.SupportsCertificate(cert) == nil {
			return cert
		}
	}
	return nil
}

// First returns the first certificate, for clients that none fits: they see whose it is.
func (f *Files) First() *tls.Certificate { return (*f.all.Load())[0] }

// Leaves returns the certificates.
func (f *Files) Leaves() []*x509.Certificate {
	var leaves []*x509.Certificate
	for _, one := range *f.all.Load() {
		leaves = append(leaves, one.Leaf)
	}
	return leaves
}
