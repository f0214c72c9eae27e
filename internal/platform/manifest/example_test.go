package manifest_test

import (
	"fmt"

	"ingot/internal/platform"
	"ingot/internal/platform/manifest"
)

func ExampleParse() {
	m, err := manifest.Parse([]byte(`
applications:
- name: shop
  memory: 64M
  sidecars:
  - name: config
    process_types: [web]
    command: ./config
`))
	if err != nil {
		panic(err)
	}
	app := m.Apps[0]
	var web platform.Process
	app.Processes[0].Set(&web)
	fmt.Println(app.Name, web.MemoryMB, app.Sidecars[0].Command)

	_, err = manifest.Parse([]byte("applications:\n- name: shop\n  instances: -1\n"))
	fmt.Println(err)
	// Output:
	// shop 64 ./config
	// UnprocessableEntity: For application 'shop': Process "web": Instances must be an integer greater than or equal to 0
}
