package loopdisk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/rootless"
)

// attachedElsewhere mounts an image in a mount namespace that has its directory as a mount, as units of
// systemd with ProtectSystem= have. The namespace ends with the returned function.
func attachedElsewhere(t *testing.T, image, point string) (end func()) {
	t.Helper()
	ready, leave := make(chan error, 1), make(chan struct{})
	left := background.Async("mount namespace", func() error {
		return rootless.OnOwnThread(func() error { // its namespace ends with it
			dir := filepath.Dir(image)
			err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
			if err == nil {
				err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
			}
			if err == nil {
				err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
			}
			if err == nil {
				err = MountOnce(image, point, "")
			}
			ready <- err
			<-leave
			return nil
		})
	})
	if err := <-ready; err != nil {
		close(leave)
		<-left
		t.Fatal(err)
	}
	return func() {
		close(leave)
		<-left
	}
}

// An image has one device, also after the namespace has ended in which it was attached: two file
// systems on the same blocks destroy each other.
func TestOneDevice(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("loop devices need root")
	}
	mkfs, err := Program("mkfs.ext4")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	var points [3]string
	for i := range points {
		points[i] = filepath.Join(dir, "point", string(rune('a'+i)))
		if err := os.MkdirAll(points[i], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 8<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := DeviceOf(image); got != "" || err != nil {
		t.Errorf("device is %q, %v, want none", got, err)
	}
	if err := Run(t.Context(), mkfs, "-q", "-F", image); err != nil {
		t.Fatal(err)
	}
	end := attachedElsewhere(t, image, points[0])
	device, err := DeviceOf(image)
	if err != nil || device == "" {
		end()
		t.Fatalf("device is %q, %v", device, err)
	}
	err = MountOnce(image, points[1], "")
	end()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Unmount(points[1]); err != nil {
			t.Error(err)
		}
	})
	if now, err := DeviceOf(image); now != device || err != nil {
		t.Errorf("device is %q, %v after the end of the namespace, want %s", now, err, device)
	}
	if err := MountOnce(image, points[2], ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Unmount(points[2]); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(points[1], "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(points[2], "file")); string(got) != "text" {
		t.Errorf("the file has %q, %v: there are two file systems on the same blocks", got, err)
	}
}
