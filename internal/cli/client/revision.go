package client

// Revision is a version of an app that was started.
type Revision struct {
	GUID        string `json:"guid"`
	Version     int    `json:"version"`
	Description string `json:"description"`
	Deployable  bool   `json:"deployable"`
	CreatedAt   string `json:"created_at"`
	Droplet     struct {
		GUID string `json:"guid"`
	} `json:"droplet"`
	Processes map[string]map[string]any `json:"processes"` // by type
	Sidecars  []map[string]any          `json:"sidecars"`
	// Ingot has the settings of processes by type, and the options of sidecars by
	// name.
	Ingot struct {
		Processes map[string]map[string]any `json:"processes"`
		Sidecars  map[string]map[string]any `json:"sidecars"`
	} `json:"ingot"`
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}
