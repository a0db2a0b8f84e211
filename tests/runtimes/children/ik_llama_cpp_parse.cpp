// As llama_cpp_parse.cpp, by the parser of ik_llama.cpp: `gpt_params_parse`.

#include "common.h"
#include "ggml-backend-impl.h"

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

static const char * buffer_name(ggml_backend_buffer_type_t buffers) {
    return static_cast<std::string *>(buffers->context)->c_str();
}

static void add_device(int number) {
    auto * buffers = new ggml_backend_buffer_type();  // registered for good
    buffers->iface.get_name = buffer_name;
    buffers->context = new std::string("CUDA" + std::to_string(number));
    ggml_backend_register(buffer_name(buffers), nullptr, buffers, nullptr);
}

static void show(const gpt_params & params) {
    std::cout << "-m\t" << params.model << "\t-ngl\t" << params.n_gpu_layers;
    std::cout << "\t-c\t" << params.n_ctx << "\t-b\t" << params.n_batch << "\t-ub\t" << params.n_ubatch;
    std::cout << "\t-t\t" << params.n_threads << "\t-fa\t" << (params.flash_attn ? "on" : "off");
    std::cout << "\t-ctk\t" << params.cache_type_k << "\t-ctv\t" << params.cache_type_v;
    std::cout << "\t-sm\t" << params.split_mode << "\t--numa\t" << params.numa;
    std::cout << "\t--no-mmap\t" << !params.use_mmap << "\t-mla\t" << params.mla_attn << "\t-ts\t";
    for (int i = 0; i < 16; i++) {
        std::cout << (i ? "," : "") << params.tensor_split[i];
    }
    std::cout << "\t--device\t" << params.devices << "\t-ot\t";
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
    std::cout << LLAMA_BUILD_NUMBER << "-" << LLAMA_COMMIT << std::endl;
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
        gpt_params params;
        if (gpt_params_parse(int(given.size()), given.data(), params)) {
            show(params);
        } else {
            std::cout << "refused" << std::endl;
        }
    }
}
