package page

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// cut is a list of the API that has more resources than one page of it.
type cut struct {
	Noun         string // what is listed, in the plural
	Shown, Total int
	Command      string // the cf command that lists all
}

// cuts are the cut lists of a request.
type cuts struct {
	mu    sync.Mutex
	lists []cut
}

type cutsKey struct{}

// withCuts returns a context in which cut lists are noted.
func withCuts(ctx context.Context) context.Context {
	return context.WithValue(ctx, cutsKey{}, &cuts{})
}

// listCommands are the cf commands that list all resources of a kind.
var listCommands = map[string]string{
	"apps": "cf apps", "organizations": "cf orgs", "spaces": "cf spaces", "routes": "cf routes", "domains": "cf domains",
	"service instances": "cf services", "service offerings": "cf marketplace", "service plans": "cf marketplace",
}

// noteCut notes that a list has more resources than were read.
func noteCut(ctx context.Context, path string, shown, total int) {
	c, ok := ctx.Value(cutsKey{}).(*cuts)
	if !ok || total <= shown {
		return
	}
	noun := strings.ReplaceAll(path[strings.LastIndexByte(path, '/')+1:], "_", " ")
	if noun == "app summaries" {
		noun = "apps"
	}
	one := cut{Noun: noun, Shown: shown, Total: total, Command: listCommands[noun]}
	if one.Command == "" {
		one.Command = Command("cf", "curl", path+"?page=2&per_page=5000")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.lists, one) {
		c.lists = append(c.lists, one)
	}
}

// cutsOf returns the cut lists of a request, which are read at the same time, by their names.
func cutsOf(ctx context.Context) []cut {
	c, ok := ctx.Value(cutsKey{}).(*cuts)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(slices.Values(c.lists), func(a, b cut) int { return strings.Compare(a.Noun, b.Noun) })
}
