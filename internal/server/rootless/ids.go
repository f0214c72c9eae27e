package rootless

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"ingot/internal/base/rootless"
)

// idRange is a range of subordinate ids of a user.
type idRange struct{ first, count int }

// subordinate returns the ranges of a user in a file such as /etc/subuid: "name:first:count" in each line.
func subordinate(file, user string, uid int) (list []idRange, sum int, err error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] != user && f[0] != strconv.Itoa(uid) {
			continue
		}
		first, err1 := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if errors.Join(err1, err2) != nil || first <= 0 || count <= 0 {
			return nil, 0, fmt.Errorf("%s: %q is not NAME:FIRST:COUNT", file, strings.TrimSpace(line))
		}
		list, sum = append(list, idRange{first, count}), sum+count
	}
	return list, sum, nil
}

// idMaps are the user and group ids of a namespace.
type idMaps struct {
	users, groups []idRange
	count         int // inside, root included
}

func mapsOf(dir, user string, uid int) (m idMaps, err error) {
	var users, groups int
	if m.users, users, err = subordinate(dir+"/subuid", user, uid); err != nil {
		return m, err
	}
	if m.groups, groups, err = subordinate(dir+"/subgid", user, uid); err != nil {
		return m, err
	}
	m.count = 1 + min(users, groups)
	if m.count < rootless.Fewest {
		return m, fmt.Errorf("%s has %d subordinate user and %d group ids in %s/subuid and %[4]s/subgid, and at least %[5]d "+
			"are needed", user, users, groups, dir, rootless.Fewest)
	}
	return m, nil
}

// arguments are those of newuidmap and newgidmap after the process: the user is root inside, and the
// subordinate ids follow.
func arguments(own int, list []idRange) []string {
	args := []string{"0", strconv.Itoa(own), "1"}
	inside := 1
	for _, r := range list {
		args = append(args, strconv.Itoa(inside), strconv.Itoa(r.first), strconv.Itoa(r.count))
		inside += r.count
	}
	return args
}
