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
	// Processes are the commands and settings of process types.
	Processes map[string]map[string]any `json:"processes"`
	Sidecars  []map[string]any          `json:"sidecars"`
	Metadata  struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}
