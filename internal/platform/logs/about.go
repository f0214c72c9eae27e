package logs

import (
	"context"
	"maps"
	"strings"

	"ingot/internal/base/token"
	"ingot/internal/platform"
)

// Access answers questions about the platform: who may read which app's log, and what an
// app is called now.
type Access interface {
	// MayRead reports whether the caller may read the log of an app. It returns false for
	// an app that does not exist.
	MayRead(ctx context.Context, claims *token.Claims, appGUID string) (bool, error)
	// About describes an app as it is now. It is called for every response and must be
	// fast; its result must not be changed.
	About(ctx context.Context, appGUID string) *About
	// Gauges measures the running instances of apps, of all if apps is nil.
	Gauges(ctx context.Context, apps []string) ([]Gauge, error)
}

// About holds the data of an app in envelopes. It is looked up when lines are read, so that
// a renamed app has its new name at once, for old lines too.
type About struct {
	// Tags are the tags of every envelope: names and guids of app, space and organization,
	// and of the deployment.
	Tags map[string]string
	// Processes are the guids of the app's processes by type, in upper case: the newest of
	// each.
	Processes map[string]string
	// Replaced are the guids of processes that a deployment replaces, by the guids of their
	// instances.
	Replaced map[string]string
}

// component returns the part of Cloud Foundry that a line would come from.
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

// Tags returns the tags of an entry: those derived from it, its own, and those of its app,
// which may be nil.
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
		if about != nil && about.Replaced[e.Stream] != "" {
			tags["process_id"] = about.Replaced[e.Stream]
		}
	}
	return tags
}
