package gitpack

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Modes of the entries of a tree.
const (
	modeDir       = 0o40000
	modeLink      = 0o120000
	modeSubmodule = 0o160000
)

// entry is one name in a tree.
type entry struct {
	mode uint32
	name string
	hash Hash
}

// find returns an object of a kind, parsed objects only if they are small enough.
func (o *Objects) find(h Hash, k kind) (int32, error) {
	i, ok := o.index[h]
	if !ok {
		return 0, &MissingError{"the " + kindNames[k] + " " + h.String() + " is missing"}
	}
	switch of := &o.list[i]; {
	case of.kind != k:
		return 0, damaged("%s is a %s, not a %s", h, kindNames[of.kind], kindNames[k])
	case k != blob && of.size > maxParsed:
		return 0, damaged("the %s %s is larger than %d MB", kindNames[k], h, maxParsed>>20)
	}
	return i, nil
}

// commitInfo is what is used of a commit.
type commitInfo struct {
	tree    Hash
	parents []Hash
	time    time.Time
	subject string
}

func (o *Objects) commit(h Hash) (c commitInfo, err error) {
	i, err := o.find(h, commit)
	if err != nil {
		return c, err
	}
	text, err := o.spill.content(&o.list[i], nil)
	if err != nil {
		return c, err
	}
	head, message, _ := bytes.Cut(text, []byte("\n\n"))
	for n, line := range strings.Split(string(head), "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch {
		case n == 0:
			var ok bool
			if c.tree, ok = ParseHash(value); key != "tree" || !ok {
				return c, damaged("the commit %s has no tree", h)
			}
		case key == "parent":
			parent, ok := ParseHash(value)
			if !ok {
				return c, damaged("the commit %s has an invalid parent", h)
			}
			c.parents = append(c.parents, parent)
		case key == "committer":
			if fields := strings.Fields(value); len(fields) > 2 {
				seconds, _ := strconv.ParseInt(fields[len(fields)-2], 10, 64)
				c.time = time.Unix(seconds, 0)
			}
		}
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(string(message)), "\n")
	c.subject = subject
	return c, nil
}

// tree returns the entries of a tree.
func (o *Objects) tree(h Hash) ([]entry, error) {
	i, err := o.find(h, tree)
	if err != nil {
		return nil, err
	}
	text, err := o.spill.content(&o.list[i], nil)
	if err != nil {
		return nil, err
	}
	var out []entry
	for len(text) > 0 {
		head, rest, ok := bytes.Cut(text, []byte{0})
		if !ok || len(rest) < len(h) {
			return nil, damaged("the tree %s ends early", h)
		}
		digits, name, ok := strings.Cut(string(head), " ")
		mode, err := strconv.ParseUint(digits, 8, 32)
		if !ok || err != nil {
			return nil, damaged("the tree %s has an invalid entry", h)
		}
		out = append(out, entry{uint32(mode), name, Hash(rest[:len(h)])})
		text = rest[len(h):]
	}
	return out, nil
}

// Closure is all that a commit needs: the commits before it, their trees and files.
type Closure struct {
	objects []int32
	// Bytes is the sum of the contents.
	Bytes int64
}

// Closure returns what a commit needs, or a MissingError.
func (o *Objects) Closure(of Hash) (*Closure, error) {
	type item struct {
		hash Hash
		kind kind
	}
	c := &Closure{}
	seen := make([]bool, len(o.list))
	stack := []item{{of, commit}}
	for len(stack) > 0 {
		next := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		i, err := o.find(next.hash, next.kind)
		if err != nil {
			return nil, err
		}
		if seen[i] {
			continue
		}
		seen[i] = true
		c.objects = append(c.objects, i)
		c.Bytes += o.list[i].size
		switch next.kind {
		case commit:
			info, err := o.commit(next.hash)
			if err != nil {
				return nil, err
			}
			stack = append(stack, item{info.tree, tree})
			for _, parent := range info.parents {
				if j, ok := o.index[parent]; !ok || !seen[j] {
					stack = append(stack, item{parent, commit})
				}
			}
		case tree:
			entries, err := o.tree(next.hash)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				k := blob
				switch e.mode {
				case modeSubmodule:
					continue // a commit of another repository
				case modeDir:
					k = tree
				}
				if j, ok := o.index[e.hash]; !ok || !seen[j] {
					stack = append(stack, item{e.hash, k})
				}
			}
		}
	}
	return c, nil
}
