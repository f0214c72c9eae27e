package platform

import (
	"encoding/json"
	"path"
	"strings"
)

// SyncRules say which changes to the files of an app need no build: all that they do not
// name. A buildpack declares them, for a droplet whose app folder is that of the package.
type SyncRules struct {
	// Restage are patterns of files that the build reads. One that ends in a slash means
	// everything below a folder.
	Restage []string `json:"restage"`
	// RestagePresence are patterns of files whose existence is all that the build
	// checks.
	RestagePresence []string `json:"restage_presence,omitempty"`
}

// SyncRulesOf returns the rules of a droplet; nil if all changes need a build.
func SyncRulesOf(d *Droplet) *SyncRules {
	var execution struct {
		Sync *SyncRules `json:"sync"`
	}
	if d.Container != nil || json.Unmarshal([]byte(d.ExecutionMetadata), &execution) != nil {
		return nil
	}
	return execution.Sync
}

// NeedsBuild returns the first path that needs a build, "" if none does. changed are the
// files whose content changed, others those that were added or deleted.
func (r *SyncRules) NeedsBuild(changed, others []string) string {
	for _, list := range []struct {
		paths    []string
		presence bool
	}{{changed, false}, {others, true}} {
		for _, name := range list.paths {
			if name == "Procfile" || matchesAny(r.Restage, name) || list.presence && matchesAny(r.RestagePresence, name) {
				return name
			}
		}
	}
	return ""
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if strings.HasSuffix(p, "/") && strings.HasPrefix(name, p) {
			return true
		}
		if ok, err := path.Match(p, name); ok || err != nil { // an invalid pattern matches all
			return true
		}
	}
	return false
}
