// Reads command lines, a word after the other with tabs between, and says what llama.cpp's own
// parser makes of each: `common_params_parse` as llama-server calls it, before any file is opened.
//
//     llama_cpp_parse GPUS < lines
//
// Built and linked by tests/runtimes/test_arguments.py. So many devices CUDA0, CUDA1, ... stand in
// for GPUs: they have names and nothing else, which is all that the parser asks for.

#include "arg.h"
#include "build-info.h"
#include "common.h"
#include "ggml-backend-impl.h"

#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

struct stand_in {
    std::string name;
    ggml_backend_buffer_type buffers;
    ggml_backend_device device;
};

static const char * device_name(ggml_backend_dev_t device) {
    return static_cast<stand_in *>(device->context)->name.c_str();
}

static const char * buffer_name(ggml_backend_buffer_type_t buffers) {
    return device_name(buffers->device);
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t) {
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

static ggml_backend_buffer_type_t device_buffers(ggml_backend_dev_t device) {
    return &static_cast<stand_in *>(device->context)->buffers;
}

static void add_device(int number) {
    auto * made = new stand_in();  // registered for good
    made->name = "CUDA" + std::to_string(number);
    made->device.context = made;
    made->device.iface.get_name = device_name;
    made->device.iface.get_type = device_type;
    made->device.iface.get_buffer_type = device_buffers;
    made->buffers.iface.get_name = buffer_name;
    made->buffers.device = &made->device;
    ggml_backend_device_register(&made->device);
}

static void show(const common_params & params) {
    std::cout << "-m\t" << params.model.path << "\t-ngl\t" << params.n_gpu_layers;
    std::cout << "\t-c\t" << params.n_ctx << "\t-b\t" << params.n_batch << "\t-ub\t" << params.n_ubatch;
    std::cout << "\t-t\t" << params.cpuparams.n_threads << "\t-fa\t" << llama_flash_attn_type_name(params.flash_attn_type);
    std::cout << "\t-ctk\t" << ggml_type_name(params.cache_type_k) << "\t-ctv\t" << ggml_type_name(params.cache_type_v);
    std::cout << "\t-sm\t" << params.split_mode << "\t--numa\t" << params.numa;
    std::cout << "\t--load-mode\t" << llama_load_mode_name(params.load_mode) << "\t-ts\t";
    for (size_t i = 0; i < llama_max_devices(); i++) {
        std::cout << (i ? "," : "") << params.tensor_split[i];
    }
    std::cout << "\t--device\t";
    for (auto * device : params.devices) {
        std::cout << (device ? ggml_backend_dev_name(device) : "") << ",";
    }
    std::cout << "\t-ot\t";
    for (const auto & one : params.tensor_buft_overrides) {
        if (one.pattern) {
            std::cout << one.pattern << "=" << ggml_backend_buft_name(one.buft) << ",";
        }
    }
    std::cout << std::endl;
}

int main(int argc, char ** argv) {
    for (int number = 0; argc > 1 && number < std::stoi(argv[1]); number++) {
        add_device(number);
    }
    std::cout << llama_build_info() << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        std::vector<std::string> words = {"llama-server"};
        std::istringstream stream(line);
        for (std::string word; std::getline(stream, word, '\t');) {
            words.push_back(word);
        }
        std::vector<char *> given;
        for (auto & word : words) {
            given.push_back(word.data());
        }
        common_params params;
        if (common_params_parse(int(given.size()), given.data(), params, LLAMA_EXAMPLE_SERVER)) {
            show(params);
        } else {
            std::cout << "refused" << std::endl;
        }
    }
}
