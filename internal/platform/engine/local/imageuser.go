package local

import (
	"bufio"
	"cmp"
	"io"
	"path"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// The files of an image with its accounts.
const (
	PasswdFile = "etc/passwd"
	GroupFile  = "etc/group"
)

// accountsSize limits how much of an image's passwd and group files is read.
const accountsSize = 1 << 20

// ImageAccount returns the account of a user of an image, written as USER or USER:GROUP. open
// opens a file of the image, and returns nil if there is none.
func ImageAccount(user string, open func(name string) io.ReadCloser) (platform.ImageAccount, error) {
	name, group, hasGroup := strings.Cut(user, ":")
	name = cmp.Or(name, "0")
	who := platform.ImageAccount{Home: "/"}
	id, numeric := number(name)
	known := false
	for _, f := range accounts(open(PasswdFile), 6) {
		uid, ok1 := number(f[2])
		gid, ok2 := number(f[3])
		if !ok1 || !ok2 || !(numeric && uid == id || !numeric && f[0] == name) {
			continue
		}
		who.User, who.Group, known = uid, gid, true
		if path.IsAbs(f[5]) {
			who.Home = path.Clean(f[5])
		}
		break
	}
	switch {
	case known:
	case numeric:
		who.User = id
	default:
		return platform.ImageAccount{}, fault.New(fault.Unprocessable,
			"the image runs as the user %q, which is not in its /etc/passwd: set USER to a number, or add the user to the image",
			name)
	}
	if hasGroup {
		gid, err := groupOf(open, group)
		if err != nil {
			return platform.ImageAccount{}, err
		}
		who.Group = gid
	}
	return who, nil
}

func groupOf(open func(name string) io.ReadCloser, name string) (int, error) {
	if id, ok := number(name); ok {
		return id, nil
	}
	for _, f := range accounts(open(GroupFile), 3) {
		if id, ok := number(f[2]); ok && f[0] == name {
			return id, nil
		}
	}
	return 0, fault.New(fault.Unprocessable,
		"the image runs in the group %q, which is not in its /etc/group: set USER to numbers, or add the group to the image",
		name)
}

func number(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil //nolint:gosec // 31 bits
}

// accounts returns the lines of a file of accounts that have at least n fields, and closes it.
func accounts(file io.ReadCloser, n int) [][]string {
	if file == nil {
		return nil
	}
	defer file.Close()
	var out [][]string
	lines := bufio.NewScanner(io.LimitReader(file, accountsSize))
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); len(fields) >= n {
			out = append(out, fields)
		}
	}
	return out
}
