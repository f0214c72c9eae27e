package archive

import (
	"path"
	"strings"

	"ingot/internal/base/fault"
)

// tree is the names of an archive that were seen so far, as the file system would
// have them. It exists to answer two questions without touching a disk: may this
// name be added, and where does this link lead.
type tree struct {
	limits Limits
	root   *node
	sum    Summary
	links  []link
	// steps is how many parts of link targets may still be looked up. Without a
	// limit, a small archive of long links could keep us busy for hours.
	steps int
}

type node struct {
	kind     Kind // Dir, File or Symlink: once made, a hard link is a file
	parent   *node
	children map[string]*node
	target   string // of a Symlink
	size     int64  // of a File
}

type link struct {
	name string
	node *node
}

// maxHops is how many links may be followed to resolve one; Linux has the same.
const maxHops = 40

func newTree(l Limits) *tree {
	return &tree{limits: l, root: &node{kind: Dir}, steps: 64 * max(l.Files, 1000)}
}

// parts checks a name by itself and splits it. The root has none.
func (t *tree) parts(name string) ([]string, *fault.Error) {
	switch {
	case name == "":
		return nil, refuse(name, "has no name")
	case len(name) > maxName:
		return nil, refuse(name, "has a name longer than %d bytes", maxName)
	case strings.ContainsRune(name, 0):
		return nil, refuse(name, "has a NUL character in its name")
	case name[0] == '/':
		return nil, refuse(name, "is an absolute path")
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			if clean := path.Clean(name); clean == ".." || strings.HasPrefix(clean, "../") {
				return nil, refuse(name, "leaves the directory")
			}
			return nil, refuse(name, `has ".." in its name`)
		case len(part) > maxPart:
			return nil, refuse(name, "has a part longer than %d bytes in its name", maxPart)
		}
		parts = append(parts, part)
	}
	if len(parts) > t.limits.Depth {
		return nil, refuse(name, "is nested deeper than %d directories", t.limits.Depth)
	}
	return parts, nil
}

// place adds a name, with the directories it implies, and returns its node and
// clean path.
func (t *tree) place(name string, kind Kind) (*node, string, error) {
	parts, err := t.parts(name)
	if err != nil {
		return nil, "", err
	}
	if len(parts) == 0 {
		if kind != Dir {
			return nil, "", refuse(name, "is a %s in the place of the root directory", kind)
		}
		return t.root, ".", nil
	}
	dir := t.root
	for i, part := range parts[:len(parts)-1] {
		child := dir.children[part]
		switch {
		case child == nil:
			if child, err = t.add(dir, part, Dir); err != nil {
				return nil, "", err
			}
		case child.kind == Symlink:
			return nil, "", refuse(name, "is placed inside the link %s", quote(strings.Join(parts[:i+1], "/")))
		case child.kind != Dir:
			return nil, "", refuse(name, "is placed inside the file %s", quote(strings.Join(parts[:i+1], "/")))
		}
		dir = child
	}
	base := parts[len(parts)-1]
	n := dir.children[base]
	switch {
	case n == nil:
		if n, err = t.add(dir, base, kind); err != nil {
			return nil, "", err
		}
	case n.kind != kind:
		return nil, "", refuse(name, "is a %s in the place of a %s", kind, n.kind)
	}
	return n, strings.Join(parts, "/"), nil
}

func (t *tree) add(dir *node, part string, kind Kind) (*node, *fault.Error) {
	if t.sum.Files+t.sum.Dirs+t.sum.Links >= t.limits.Files {
		return nil, tooMany(t.limits)
	}
	switch kind {
	case Dir:
		t.sum.Dirs++
	case Symlink:
		t.sum.Links++
	default:
		t.sum.Files++
	}
	n := &node{kind: kind, parent: dir}
	if dir.children == nil {
		dir.children = map[string]*node{}
	}
	dir.children[part] = n
	return n, nil
}

func tooMany(l Limits) *fault.Error {
	return invalid("it has more than %d files and directories", l.Files)
}

// placeLink adds a symbolic link. The same link may come twice, another not: that
// would change where earlier entries are.
func (t *tree) placeLink(name, target string) (string, error) {
	before := t.sum.Links
	n, clean, err := t.place(name, Symlink)
	switch {
	case err != nil:
		return "", err
	case target == "":
		return "", refuse(name, "is a link without a target")
	case len(target) > maxName:
		return "", refuse(name, "is a link with a target longer than %d bytes", maxName)
	case strings.ContainsRune(target, 0):
		return "", refuse(name, "is a link with a NUL character in its target")
	case t.sum.Links == before && n.target != target:
		return "", refuse(name, "is a link that comes twice with different targets")
	}
	if t.sum.Links > before {
		n.target = target
		t.links = append(t.links, link{name, n})
	}
	return clean, nil
}

// find returns what stands under a name that a hard link gives.
func (t *tree) find(name, target string) (*node, string, error) {
	parts, err := t.parts(target)
	if err != nil {
		return nil, "", refuse(name, "is a hard link to %s, which leaves the directory or is no valid name", quote(target))
	}
	n := t.root
	for _, part := range parts {
		if n = n.children[part]; n == nil {
			break
		}
	}
	if n == nil || n.kind == Dir {
		return nil, "", refuse(name, "is a hard link to %s, which is no file that came before", quote(target))
	}
	return n, strings.Join(parts, "/"), nil
}

// checkLinks is called when all names are known.
func (t *tree) checkLinks() error {
	if t.limits.OutsideLinks {
		return nil
	}
	for _, l := range t.links {
		hops := 0
		if _, why := t.follow(l.node.parent, l.node.target, &hops); why != "" {
			return refuse(l.name, "is a link to %s, which %s", quote(l.node.target), why)
		}
	}
	return nil
}

// follow resolves target as the kernel would, beginning in dir, and returns where
// it leads, or why it must not. What does not exist is taken for a directory: a
// link to it is allowed as long as it cannot lead outside.
func (t *tree) follow(dir *node, target string, hops *int) (*node, string) {
	if strings.HasPrefix(target, "/") {
		return nil, "is an absolute path"
	}
	at := dir
	for part := range strings.SplitSeq(target, "/") {
		if t.steps--; t.steps < 0 {
			return nil, "leads through too many others"
		}
		switch part {
		case "", ".":
			continue
		case "..":
			if at = at.parent; at == nil {
				return nil, "leaves the directory"
			}
			continue
		}
		child := at.children[part]
		switch {
		case child == nil:
			at = &node{kind: Dir, parent: at}
		case child.kind == Symlink:
			if *hops++; *hops > maxHops {
				return nil, "leads through too many others, or in a circle"
			}
			var why string
			if at, why = t.follow(at, child.target, hops); why != "" {
				return nil, why
			}
		default:
			at = child
		}
	}
	return at, ""
}
