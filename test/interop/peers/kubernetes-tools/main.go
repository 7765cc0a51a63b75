// Reads Kubernetes manifests (YAML documents) on stdin and decodes each into the type of its apiVersion and kind,
// strictly: an unknown kind, an unknown or repeated field, and a value of a wrong type are errors, as for
// `kubectl apply --validate=strict`. Prints one line per problem, and exits with 1 if there is one.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	count, problems := 0, 0
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		count++
		if _, _, err := decoder.Decode(document, nil, nil); err != nil {
			fmt.Printf("document %d: %v\n", count, err)
			problems++
		}
	}
	fmt.Printf("%d documents, %d with problems\n", count, problems)
	if problems > 0 || count == 0 {
		os.Exit(1)
	}
}
