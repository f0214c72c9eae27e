//go:build linux

package container

import "testing"

func TestLSBRelease(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nVERSION=\"12 " +
			"(bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n": "DISTRIB_ID=Debian\nDISTRIB_RELEASE=12\n" +
			"DISTRIB_CODENAME=bookworm\nDISTRIB_DESCRIPTION=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"NAME=Ubuntu\n# a comment\nVERSION_ID='24.04'": "DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=24.04\nDISTRIB_CODENAME=\nDISTRIB_DESCRIPTION=\"\"\n",
	} {
		if got := lsbRelease(release); got != want {
			t.Errorf("from %q: %q, want %q", release, got, want)
		}
	}
}
