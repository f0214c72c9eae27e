package logs

import (
	"context"
	"maps"
	"strings"

	"ingot/internal/base/token"
	"ingot/internal/platform"
)

// Access is what the log has to ask the platform: who may see which app's log,
// and what an app is called now.
type Access interface {
	// MayRead reports whether the caller may read the log of an app. An app that
	// does not exist is one that nobody may read.
	MayRead(ctx context.Context, claims *token.Claims, appGUID string) (bool, error)
	// About describes an app as it is now. It is asked for every answer and must
	// be quick; what it returns must not be changed.
	About(ctx context.Context, appGUID string) *About
	// Gauges measures the instances of apps that run, of all when apps is nil.
	Gauges(ctx context.Context, apps []string) ([]Gauge, error)
}

// About is what envelopes tell of an app beside its lines. It is looked up when
// lines are read, so that a name that changes changes at once, for old lines too.
type About struct {
	// Tags are those of every envelope: names and guids of app, space and
	// organization, and where it all runs.
	Tags map[string]string
	// Processes are the guids of the app's processes by type, in capital letters.
	Processes map[string]string
}

// component says which part of Cloud Foundry a line would come from.
func component(source string) (origin, job string) {
	kind, _, _ := strings.Cut(source, "/")
	switch kind {
	case "RTR":
		return "gorouter", "router"
	case "API":
		return "cloud_controller", "api"
	case "SSH":
		return "ssh-proxy", "scheduler"
	case SourceLogs:
		return "loggregator", "doppler"
	default:
		return "rep", "diego-cell"
	}
}

// Tags are the tags of an entry: those that follow from it, its own, and what is
// known about its app, which may be nil.
func Tags(e *platform.LogLine, about *About) map[string]string {
	tags := make(map[string]string, len(e.Tags)+20)
	if about != nil {
		maps.Copy(tags, about.Tags)
	}
	maps.Copy(tags, e.Tags)
	tags["source_type"] = e.Source
	tags["app_id"] = e.App
	tags["source_id"] = e.App
	tags["instance_id"] = e.Instance
	tags["origin"], tags["job"] = component(e.Source)
	if e.Stream != "" {
		tags["process_instance_id"] = e.Stream
	}
	if rest, ok := strings.CutPrefix(e.Source, "APP/PROC/"); ok {
		kind, _, _ := strings.Cut(rest, "/")
		tags["process_type"] = strings.ToLower(kind)
		if about != nil && about.Processes[kind] != "" {
			tags["process_id"] = about.Processes[kind]
		}
	}
	return tags
}
