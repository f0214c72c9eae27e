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

// tree calls visit with each entry of a tree, one after the other: a tree may have half a million.
func (o *Objects) tree(h Hash, visit func(entry) error) error {
	i, err := o.find(h, tree)
	if err != nil {
		return err
	}
	text, err := o.spill.content(&o.list[i], nil)
	if err != nil {
		return err
	}
	for len(text) > 0 {
		head, rest, ok := bytes.Cut(text, []byte{0})
		if !ok || len(rest) < len(h) {
			return damaged("the tree %s ends early", h)
		}
		digits, name, ok := strings.Cut(string(head), " ")
		mode, err := strconv.ParseUint(digits, 8, 32)
		if !ok || err != nil {
			return damaged("the tree %s has an invalid entry", h)
		}
		if err := visit(entry{uint32(mode), name, Hash(rest[:len(h)])}); err != nil {
			return err
		}
		text = rest[len(h):]
	}
	return nil
}

// Closure is all that a commit needs: the commits before it, their trees and files.
type Closure struct {
	objects []int32
	// Bytes is the sum of the contents.
	Bytes int64
}

// walk collects what a commit needs. An object is on the stack once at most, whatever refers to it.
type walk struct {
	*Objects
	seen  []bool
	stack []int32
}

// need adds an object, unless it is known.
func (w *walk) need(h Hash, k kind) error {
	i, err := w.find(h, k)
	if err != nil || w.seen[i] {
		return err
	}
	w.seen[i] = true
	w.stack = append(w.stack, i)
	return nil
}

// needs adds what an object refers to.
func (w *walk) needs(of *object) error {
	switch of.kind {
	case commit:
		info, err := w.commit(of.hash)
		if err != nil {
			return err
		}
		err = w.need(info.tree, tree)
		for _, parent := range info.parents {
			if err == nil {
				err = w.need(parent, commit)
			}
		}
		return err
	case tree:
		return w.tree(of.hash, func(e entry) error {
			switch e.mode {
			case modeSubmodule:
				return nil // a commit of another repository
			case modeDir:
				return w.need(e.hash, tree)
			}
			return w.need(e.hash, blob)
		})
	}
	return nil
}

// Closure returns what a commit needs, or a MissingError.
func (o *Objects) Closure(of Hash) (*Closure, error) {
	c, w := &Closure{}, &walk{Objects: o, seen: make([]bool, len(o.list))}
	err := w.need(of, commit)
	for err == nil && len(w.stack) > 0 {
		i := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		c.objects = append(c.objects, i)
		c.Bytes += o.list[i].size
		err = w.needs(&o.list[i])
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
