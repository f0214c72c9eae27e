package staging

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/storage/archive"
)

// collected is an engine whose instances have a number of empty files.
type collected struct {
	engine.Engine
	files int
}

func (c collected) Collect(_ context.Context, _, _ string, w io.Writer) error {
	out := tar.NewWriter(w)
	for i := range c.files {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strconv.Itoa(i)}); err != nil {
			return err
		}
	}
	return out.Close()
}

// TestManyFiles builds droplets with as many files as engines unpack, and with one more.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	for files, fits := range map[int]bool{archive.DefaultFiles: true, archive.DefaultFiles + 1: false} {
		b := &build{Stager: New(Config{Engine: collected{files: files}})}
		err := b.filter(t.Context(), io.Discard, collection{dir: "droplet", keep: dotted})
		if fits != (err == nil) || !fits && !fault.Is(err, fault.TooLarge) {
			t.Errorf("%d files: %v", files, err)
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		o    outcome
		want string
	}{
		"fine": {outcome{}, ""},
		"detect": {outcome{status: 222},
			"NoAppDetectedError - An app was not successfully detected by any available buildpack"},
		"compile":  {outcome{status: 223}, "BuildpackCompileFailed - App staging failed in the buildpack compile phase"},
		"release":  {outcome{status: 224}, "BuildpackReleaseFailed - App staging failed in the buildpack release phase"},
		"supply":   {outcome{status: 225}, "BuildpackCompileFailed - App staging failed in the buildpack supply phase"},
		"finalize": {outcome{status: 226}, "BuildpackCompileFailed - App staging failed in the buildpack finalize phase"},
		"disk":     {outcome{status: 227}, "StagingError - The build ran out of disk space: the limit is 20 MB"},
		"memory":   {outcome{status: 226, oom: true}, "StagingError - The build ran out of memory: the limit is 10 MB"},
		"time": {outcome{status: 143, timedOut: true, stopped: true},
			"StagingTimeExpired - Staging time expired: the build took longer than 1m0s"},
		"stopped":   {outcome{status: 143, stopped: true}, "StagingError - The build was stopped"},
		"lost":      {outcome{lost: true}, "StagingError - The staging instance was lost"},
		"something": {outcome{status: 1}, "StagingError - Staging failed: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.o.failure(10, 20, time.Minute)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestExplain: a full disk of the platform is named as the reason, also where no part of the
// platform has made a message of it.
func TestExplain(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"InsufficientResources - Starting the build failed: the disk of the platform is full": &fs.PathError{Op: "write",
			Path: "init.json", Err: syscall.ENOSPC},
		"StagingError - Starting the build failed because of an error of the platform": io.ErrUnexpectedEOF,
	} {
		if got := explain(fmt.Errorf("start: %w", err), "Starting the build"); !strings.HasPrefix(got.Error(), want) ||
			strings.Contains(got.Error(), "init.json") {
			t.Errorf("%v: %v, want %q", err, got, want)
		}
	}
}

// TestPermitted sees from where this server fetches what users name.
func TestPermitted(t *testing.T) {
	t.Parallel()
	strict, open := &Stager{}, &Stager{config: Config{PrivateFetch: true}}
	for address, want := range map[string]bool{
		"1.1.1.1": true, "100.63.255.255": true, "100.128.0.1": true, "2606:4700::1111": true, "64:ff9a::1": true,
		"127.0.0.1": false, "::1": false, "0.0.0.0": false, "::": false, "10.1.2.3": false, "172.16.0.1": false,
		"192.168.1.1": false, "fd00::1": false,
		"169.254.169.254": false, "fe80::1": false, "224.0.0.1": false, "255.255.255.255": false, "::ffff:127.0.0.1": false,
		"::ffff:10.0.0.1": false,
		"100.64.0.1":      false, "100.100.100.200": false, "100.127.255.255": false, "::ffff:100.64.0.1": false,
		"64:ff9b::a9fe:a9fe": false, "64:ff9b::7f00:1": false,
	} {
		at := netip.MustParseAddr(address)
		if got := strict.permitted(at); got != want {
			t.Errorf("%s is permitted: %t", address, got)
		}
		if !open.permitted(at) {
			t.Errorf("%s is not permitted although all are", address)
		}
	}
}
